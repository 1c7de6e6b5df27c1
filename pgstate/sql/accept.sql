-- Store.Accept.
SELECT r.verdict, r.reason, r.ready_worker_id
FROM pgflow.accept_invocation($1::text, $2::uuid, $3::uuid, $4::text) AS r
