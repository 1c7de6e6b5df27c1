UPDATE pgflow.workers SET stopped_at = clock_timestamp()
WHERE function_name = $1::text AND stopped_at IS NULL AND deprecated_at IS NULL
