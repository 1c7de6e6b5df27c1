-- Marks what keep.sql and check.sql know ours by, and privileges: nothing for PUBLIC nor for the roles under which
-- Supabase publishes a database; who else could call what was there can call ours.
DO $mark$
DECLARE
    grantee text;
BEGIN
    EXECUTE format('COMMENT ON FUNCTION pgflow.ensure_workers() IS %L', (
        SELECT 'pgflow-operator: reserves every start that is due and enqueues it with pg_net; body '
            || encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex')
        FROM pg_catalog.pg_proc p WHERE p.oid = 'pgflow.ensure_workers()'::regprocedure));
    COMMENT ON FUNCTION pgflow.handshake_path_segment(text)
        IS 'pgflow-operator: a function''s name as one path segment of a URL; null: it cannot be one';

    FOR grantee IN
        SELECT 'PUBLIC' UNION ALL
        SELECT quote_ident(rolname) FROM pg_catalog.pg_roles WHERE rolname IN ('anon', 'authenticated')
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION pgflow.ensure_workers(), pgflow.handshake_path_segment(text) FROM %s', grantee);
    END LOOP;
    FOR grantee IN
        SELECT DISTINCT quote_ident(r.rolname)
        FROM pg_catalog.pg_proc p
        CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
        WHERE p.oid = to_regprocedure('pgflow.handshake_kept_ensure_workers()')
          AND r.rolname NOT IN ('anon', 'authenticated', current_user)
    LOOP
        EXECUTE format('GRANT SELECT ON pgflow.handshake_states TO %s', grantee);
        EXECUTE format('GRANT EXECUTE ON FUNCTION pgflow.ensure_workers(), pgflow.handshake_path_segment(text), '
                       'pgflow.handshake_lock(text), '
                       'pgflow.handshake_close(text, uuid, text, text, boolean, uuid, timestamptz) TO %s', grantee);
    END LOOP;
END
$mark$;
