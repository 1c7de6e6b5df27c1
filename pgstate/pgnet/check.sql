-- CheckPgNet: what ensure_workers() is, $1 being the hash of this build's. Needs no privilege on schema pgflow.
WITH named AS (
    SELECT p.proname, obj_description(p.oid, 'pg_proc') AS description,
           encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex') AS body
    FROM pg_catalog.pg_proc p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = 'pgflow'
      AND (p.proname = 'ensure_workers' AND p.pronargs = 0 OR p.proname = 'handshake_path_segment')
)
SELECT CASE
    WHEN EXISTS (SELECT FROM named WHERE proname = 'ensure_workers' AND description LIKE 'pgflow-operator:%' || body AND body = $1)
        THEN 'current'
    WHEN EXISTS (SELECT FROM named WHERE proname = 'ensure_workers' AND description LIKE 'pgflow-operator:%' || body)
        THEN 'outdated'
    WHEN EXISTS (SELECT FROM named WHERE proname = 'handshake_path_segment' AND description LIKE 'pgflow-operator:%')
        THEN 'replaced'
    ELSE 'absent'
END
