-- Initialisation has ended and the loop is about to begin.
SELECT verdict, reason, ready_worker_id FROM pgflow.accept_invocation($1::text, $2::uuid, $3::uuid, $4::text)
