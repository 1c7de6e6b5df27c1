-- Restores what ensure_workers() was before it was ours. Where something newer has taken its place, that stays.
DO $uninstall$
DECLARE
    present regprocedure;
    kept regprocedure;
    previous text; -- comment
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    IF to_regnamespace('pgflow') IS NULL THEN
        RETURN;
    END IF;
    present := to_regprocedure('pgflow.ensure_workers()');
    kept := to_regprocedure('pgflow.handshake_kept_ensure_workers()');
    IF obj_description(kept, 'pg_proc') LIKE 'kept by pgflow-operator:%' THEN
        previous := CASE WHEN obj_description(kept, 'pg_proc') LIKE E'%\n%'
                         THEN substr(obj_description(kept, 'pg_proc'), strpos(obj_description(kept, 'pg_proc'), E'\n') + 1) END;
    ELSE
        kept := NULL; -- a stranger's
    END IF;

    IF obj_description(present, 'pg_proc') LIKE 'pgflow-operator:%' THEN
        IF right(obj_description(present, 'pg_proc'), 64)
            = (SELECT encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex') FROM pg_catalog.pg_proc p WHERE p.oid = present) THEN
            DROP FUNCTION pgflow.ensure_workers();
            present := NULL;
        ELSE -- replaced in place: not ours but for the comment
            EXECUTE format('COMMENT ON FUNCTION pgflow.ensure_workers() IS %L', previous);
        END IF;
    END IF;

    IF kept IS NOT NULL AND present IS NOT NULL THEN
        DROP FUNCTION pgflow.handshake_kept_ensure_workers();
    ELSIF kept IS NOT NULL THEN
        ALTER FUNCTION pgflow.handshake_kept_ensure_workers() RENAME TO ensure_workers;
        EXECUTE format('COMMENT ON FUNCTION pgflow.ensure_workers() IS %L', previous);
    END IF;
    IF obj_description(to_regprocedure('pgflow.handshake_path_segment(text)'), 'pg_proc') LIKE 'pgflow-operator:%' THEN
        DROP FUNCTION pgflow.handshake_path_segment(text);
    END IF;
END
$uninstall$;
