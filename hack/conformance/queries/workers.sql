SELECT worker_id, invocation_id, stopped_at IS NULL AND deprecated_at IS NULL AS live,
    extract(epoch FROM last_heartbeat_at)::float8 AS beat,
    coalesce(deprecated_at > greatest(last_heartbeat_at, clock_timestamp() - interval '400 ms')
        AND stopped_at IS NULL, false) AS ending
FROM pgflow.workers WHERE function_name = $1::text
ORDER BY started_at, worker_id
