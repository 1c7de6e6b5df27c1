-- A request without an id: the runtime asks for itself.
SELECT decision, invocation_id, ready_worker_id FROM pgflow.reserve_invocation($1::text)
