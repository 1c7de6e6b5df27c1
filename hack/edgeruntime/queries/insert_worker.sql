-- The published workers' own registration: no invocation, times from the columns' defaults.
INSERT INTO pgflow.workers (queue_name, worker_id, function_name)
VALUES ($1::text, $2::uuid, $3::text)
RETURNING *
