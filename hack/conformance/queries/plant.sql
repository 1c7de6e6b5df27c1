-- A worker as those register that take no part.
INSERT INTO pgflow.workers (queue_name, worker_id, function_name) VALUES ($2::text, $1::uuid, $2::text)
