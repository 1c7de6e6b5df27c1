UPDATE pgflow.workers SET last_heartbeat_at = clock_timestamp()
WHERE function_name = $1::text AND stopped_at IS NULL AND deprecated_at IS NULL
