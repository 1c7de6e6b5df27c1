-- Store.States ($1 null: all) and Store.StatesOf ($1: these names).
--
-- One row a registration, each with the clock; a row with the clock alone when
-- there are none. Times are microseconds since 1970 and durations microseconds,
-- so that no setting of the role or the database changes what is read; a time
-- that is infinite reads as null, and a duration is cut to what a reader can
-- hold. Workers are found by primary key, one at a time: their table is never
-- pruned, and a join would be free to scan all of it.
SELECT (extract(epoch FROM clock.now) * 1000000)::bigint AS now,
       s.function_name,
       s.enabled,
       s.start_mode,
       s.handshake,
       s.phase,
       s.takes_part,
       (extract(epoch FROM least(f.debounce, interval '100 years')) * 1000000)::bigint,
       (extract(epoch FROM f.pending_timeout) * 1000000)::bigint,
       (extract(epoch FROM s.heartbeat_timeout) * 1000000)::bigint,
       s.ready_worker_id,
       CASE WHEN isfinite(ready.started_at) THEN (extract(epoch FROM ready.started_at) * 1000000)::bigint END,
       CASE WHEN isfinite(s.last_heartbeat_at) THEN (extract(epoch FROM s.last_heartbeat_at) * 1000000)::bigint END,
       s.verified,
       s.invocation_id,
       CASE WHEN isfinite(s.invocation_expires_at) THEN (extract(epoch FROM s.invocation_expires_at) * 1000000)::bigint END,
       CASE WHEN isfinite(s.retry_at) THEN (extract(epoch FROM s.retry_at) * 1000000)::bigint END,
       s.failed_starts,
       s.last_invocation_id,
       s.last_outcome,
       s.last_outcome_reason,
       CASE WHEN isfinite(s.last_outcome_at) THEN (extract(epoch FROM s.last_outcome_at) * 1000000)::bigint END,
       predecessor.worker_id,
       CASE WHEN isfinite(predecessor.started_at) THEN (extract(epoch FROM predecessor.started_at) * 1000000)::bigint END,
       CASE WHEN isfinite(predecessor.ended_at) THEN (extract(epoch FROM predecessor.ended_at) * 1000000)::bigint END,
       predecessor.verified
FROM (SELECT clock_timestamp() AS now) AS clock
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
