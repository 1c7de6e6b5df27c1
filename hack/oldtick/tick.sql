-- $1: local mode, in which every enabled function is due at every tick.
-- start_mode is read through the row's JSON, because older installations do not have the column.
WITH due AS (
    SELECT f.function_name
    FROM pgflow.worker_functions AS f
    WHERE f.enabled
      AND coalesce(to_jsonb(f) ->> 'start_mode', 'http') = 'http'
      AND ($1::boolean OR (
          (f.last_invoked_at IS NULL OR f.last_invoked_at < now() - f.debounce)
          AND NOT EXISTS (
              SELECT FROM pgflow.workers AS w
              WHERE w.function_name = f.function_name
                AND w.stopped_at IS NULL
                AND w.deprecated_at IS NULL
                AND w.last_heartbeat_at > now() - f.debounce
          )
      ))
)
UPDATE pgflow.worker_functions AS f
SET last_invoked_at = clock_timestamp()
FROM due
WHERE f.function_name = due.function_name
RETURNING f.function_name
