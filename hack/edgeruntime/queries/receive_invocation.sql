-- A request with an id has arrived; $3 is the worker whose loop runs here, null when there is none.
SELECT verdict, reason, ready_worker_id FROM pgflow.receive_invocation($1::text, $2::uuid, $3::uuid)
