-- The worker's id that the session shows.
SELECT string_agg(lpad(to_hex(classid::bigint), 8, '0') || lpad(to_hex(objid::bigint), 8, '0'), '' ORDER BY mode DESC)::uuid
FROM pg_catalog.pg_locks
WHERE pid = $1::integer AND locktype = 'advisory' AND objsubid = 1 AND granted
    AND mode IN ('ShareLock', 'ExclusiveLock')
