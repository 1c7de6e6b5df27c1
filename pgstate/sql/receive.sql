-- Store.Receive. Times are microseconds since 1970.
SELECT r.verdict,
       r.reason,
       r.ready_worker_id,
       (extract(epoch FROM r.expires_at) * 1000000)::bigint
FROM pgflow.receive_invocation($1::text, $2::uuid, $3::uuid) AS r
