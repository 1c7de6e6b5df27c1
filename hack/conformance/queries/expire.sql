UPDATE pgflow.worker_functions
SET invocation_expires_at = clock_timestamp() - interval '1 s', last_invoked_at = clock_timestamp() - interval '1 h'
WHERE function_name = $1::text AND invocation_id = $2::uuid
