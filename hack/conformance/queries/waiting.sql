-- Who waits for the session $1, directly or behind others that do, and since when. Of the sessions of other roles the
-- statement is not shown to everybody.
WITH RECURSIVE blocked AS MATERIALIZED (
    SELECT pid, max(waitstart) AS since FROM pg_catalog.pg_locks WHERE NOT granted GROUP BY pid
), waiting (pid, since) AS (
    SELECT $1::integer, NULL::timestamptz
    UNION
    SELECT b.pid, b.since FROM waiting w JOIN blocked b ON w.pid = ANY (pg_blocking_pids(b.pid))
)
SELECT w.pid, coalesce(a.query, '') AS statement, extract(epoch FROM coalesce(w.since, clock_timestamp()))::float8 AS since
FROM waiting w LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = w.pid
WHERE w.pid <> $1
