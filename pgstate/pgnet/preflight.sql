-- Refuses before anything is changed: without pg_net (PF102), where an object of another origin has one of our names or
-- ensure_workers() no longer returns what we return (PF101, DETAIL names each), and for a role that may not replace it.
DO $preflight$
DECLARE
    strangers text;
    unowned regprocedure;
BEGIN
    IF to_regnamespace('net') IS NULL
        OR to_regprocedure('net.http_post(text, jsonb, jsonb, jsonb, integer)') IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'PF102',
            MESSAGE = 'pg_net is not installed in this database: function net.http_post(text, jsonb, jsonb, jsonb, integer) is missing',
            HINT = 'Nothing was changed. CREATE EXTENSION pg_net first, or migrate without --with-pg-net: the operator needs no pg_net.';
    END IF;

    WITH named(name, mark) AS (
        VALUES ('handshake_path_segment', 'pgflow-operator:%'),
               ('handshake_kept_ensure_workers', 'kept by pgflow-operator:%')
    ), stranger(what) AS (
        SELECT format('function pgflow.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid))
        FROM named n
        JOIN pg_catalog.pg_proc p ON p.proname = n.name AND p.pronamespace = to_regnamespace('pgflow')
        WHERE coalesce(obj_description(p.oid, 'pg_proc'), '') NOT LIKE n.mark
        UNION ALL
        -- Whoever replaces it in place later must find the result that was there.
        SELECT format('function pgflow.ensure_workers() with result %s', pg_get_function_result(p.oid))
        FROM pg_catalog.pg_proc p
        WHERE p.proname = 'ensure_workers' AND p.pronargs = 0 AND p.pronamespace = to_regnamespace('pgflow')
          AND pg_get_function_result(p.oid)
              IS DISTINCT FROM 'TABLE(function_name text, invoked boolean, request_id bigint)'
    )
    SELECT string_agg(what, E'\n' ORDER BY what COLLATE "C") INTO strangers FROM stranger;
    IF strangers IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'PF101',
            MESSAGE = format('objects of another origin have names that the SQL path needs: %s', replace(strangers, E'\n', ', ')),
            DETAIL = strangers,
            HINT = 'Nothing was changed. Rename or drop them, or migrate without --with-pg-net.';
    END IF;

    SELECT p.oid::regprocedure INTO unowned
    FROM pg_catalog.pg_proc p
    WHERE p.proname = 'ensure_workers' AND p.pronargs = 0 AND p.pronamespace = to_regnamespace('pgflow')
      AND NOT pg_has_role(p.proowner, 'USAGE');
    IF unowned IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'insufficient_privilege', -- 42501
            MESSAGE = format('role %s does not own function %s and cannot replace it', current_user, unowned);
    END IF;
END
$preflight$;
