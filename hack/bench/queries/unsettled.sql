-- How many functions are without a worker, or were invoked within their debounce.
SELECT count(*)
FROM pgflow.worker_functions AS f
WHERE f.last_invoked_at IS NULL
   OR f.last_invoked_at >= now() - f.debounce
   OR NOT EXISTS (
       SELECT FROM pgflow.workers AS w
       WHERE w.function_name = f.function_name
         AND w.stopped_at IS NULL
         AND w.deprecated_at IS NULL
         AND w.last_heartbeat_at > now() - f.debounce
   )
