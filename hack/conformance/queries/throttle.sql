-- Invoked just now, and nothing pending.
UPDATE pgflow.worker_functions
SET invocation_id = NULL, invocation_expires_at = NULL, last_invoked_at = clock_timestamp(), debounce = interval '1 h'
WHERE function_name = $1::text
