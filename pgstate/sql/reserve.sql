-- Store.Reserve. Times are microseconds since 1970.
SELECT r.decision,
       r.invocation_id,
       (extract(epoch FROM r.expires_at) * 1000000)::bigint,
       (extract(epoch FROM r.expires_at - clock_timestamp()) * 1000000)::bigint,
       (extract(epoch FROM r.retry_at) * 1000000)::bigint,
       r.ready_worker_id
FROM pgflow.reserve_invocation($1::text) AS r
