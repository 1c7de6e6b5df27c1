-- Nothing keeps the next reservation back.
UPDATE pgflow.worker_functions SET last_invoked_at = NULL, failed_starts = 0 WHERE function_name = $1::text
