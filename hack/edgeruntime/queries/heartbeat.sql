-- No row: the worker's row is gone.
UPDATE pgflow.workers SET last_heartbeat_at = clock_timestamp()
WHERE worker_id = $1::uuid
RETURNING deprecated_at IS NOT NULL
