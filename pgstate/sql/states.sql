-- Store.States ($1 null: all) and Store.StatesOf ($1: these names).
--
-- One row a registration, each with the clock; a row with the clock alone when
-- there are none. Times are microseconds since 1970 and durations microseconds,
-- so that no setting of the role or the database changes what is read; a time
-- outside of the years 1 to 9999 reads as null (no API can show it), and a duration is cut to what a reader can
-- hold. Texts and rows are bounded, because the database may be a tenant's and the
-- view whatever the tenant made of it. Workers are found by primary key, one at a
-- time: their table is never pruned, and a join would be free to scan all of it.
SELECT (extract(epoch FROM clock.now) * 1000000)::bigint AS now,
       s.function_name,
       s.enabled,
       left(s.start_mode, 512),
       left(s.handshake, 512),
       left(s.phase, 512),
       s.takes_part,
       (extract(epoch FROM least(f.debounce, interval '100 years')) * 1000000)::bigint,
       (extract(epoch FROM f.pending_timeout) * 1000000)::bigint,
       (extract(epoch FROM s.heartbeat_timeout) * 1000000)::bigint,
       s.ready_worker_id,
       CASE WHEN ready.started_at BETWEEN era.began AND era.ends THEN (extract(epoch FROM ready.started_at) * 1000000)::bigint END,
       CASE WHEN s.last_heartbeat_at BETWEEN era.began AND era.ends THEN (extract(epoch FROM s.last_heartbeat_at) * 1000000)::bigint END,
       s.verified,
       s.invocation_id,
       CASE WHEN s.invocation_expires_at BETWEEN era.began AND era.ends THEN (extract(epoch FROM s.invocation_expires_at) * 1000000)::bigint END,
       CASE WHEN s.retry_at BETWEEN era.began AND era.ends THEN (extract(epoch FROM s.retry_at) * 1000000)::bigint END,
       s.failed_starts,
       s.last_invocation_id,
       left(s.last_outcome, 512),
       left(s.last_outcome_reason, 512),
       CASE WHEN s.last_outcome_at BETWEEN era.began AND era.ends THEN (extract(epoch FROM s.last_outcome_at) * 1000000)::bigint END,
       predecessor.worker_id,
       CASE WHEN predecessor.started_at BETWEEN era.began AND era.ends THEN (extract(epoch FROM predecessor.started_at) * 1000000)::bigint END,
       CASE WHEN predecessor.ended_at BETWEEN era.began AND era.ends THEN (extract(epoch FROM predecessor.ended_at) * 1000000)::bigint END,
       predecessor.verified
FROM (SELECT clock_timestamp() AS now) AS clock
CROSS JOIN (VALUES (timestamptz '0001-01-01 00:00:00+00', timestamptz '9999-12-31 00:00:00+00')) AS era (began, ends)
LEFT JOIN (
    SELECT *
    FROM pgflow.worker_function_states
    WHERE $1::text[] IS NULL OR function_name = ANY ($1::text[])
) AS s ON true
LEFT JOIN pgflow.worker_functions AS f ON f.function_name = s.function_name
LEFT JOIN LATERAL (
    SELECT w.started_at
    FROM pgflow.workers AS w
    WHERE w.worker_id = s.ready_worker_id
    LIMIT 1
) AS ready ON true
LEFT JOIN LATERAL (
    SELECT w.worker_id,
           w.started_at,
           -- A heartbeat in the future counts as long past, as everywhere.
           least(w.stopped_at, w.deprecated_at,
                 CASE WHEN w.last_heartbeat_at <= clock.now + interval '5 seconds'
                      THEN w.last_heartbeat_at + s.heartbeat_timeout
                      ELSE '-infinity' END) AS ended_at,
           w.invocation_id IS NOT NULL AS verified
    FROM pgflow.workers AS w
    WHERE w.worker_id = s.last_worker_id
      AND w.function_name = s.function_name
    LIMIT 1
) AS predecessor ON true
LIMIT CASE WHEN $1::text[] IS NULL THEN NULL ELSE greatest(cardinality($1::text[]), 1) END
