-- The heartbeat of many workers at once. Rows are taken in the order of their ids, so that two such statements cannot
-- lock each other out.
UPDATE pgflow.workers AS w SET last_heartbeat_at = clock_timestamp()
FROM (
    SELECT worker_id FROM pgflow.workers
    WHERE worker_id = ANY($1::uuid[])
    ORDER BY worker_id
    FOR NO KEY UPDATE
) AS mine
WHERE w.worker_id = mine.worker_id
RETURNING w.worker_id, w.deprecated_at IS NOT NULL
