-- Keeps what ensure_workers() is under another name, where it is not ours: as it stands, with its owner, privileges and
-- settings, which a stored definition would lose. Ours is known by its comment, which ends with the hash of the body
-- that it was written for: CREATE OR REPLACE leaves a comment behind, so the comment alone would not tell.
DO $keep$
DECLARE
    present regprocedure := to_regprocedure('pgflow.ensure_workers()');
    kept regprocedure := to_regprocedure('pgflow.handshake_kept_ensure_workers()');
    description text := obj_description(present, 'pg_proc');
BEGIN
    IF present IS NULL OR description LIKE
        'pgflow-operator:%' || (SELECT encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex') FROM pg_catalog.pg_proc p WHERE p.oid = present) THEN
        RETURN;
    END IF;
    IF description LIKE 'pgflow-operator:%' THEN -- replaced in place: what it says of itself is still our comment
        description := CASE WHEN obj_description(kept, 'pg_proc') LIKE E'%\n%'
                            THEN substr(obj_description(kept, 'pg_proc'), strpos(obj_description(kept, 'pg_proc'), E'\n') + 1) END;
    END IF;
    IF kept IS NOT NULL THEN
        DROP FUNCTION pgflow.handshake_kept_ensure_workers(); -- something newer is there to go back to
    END IF;
    ALTER FUNCTION pgflow.ensure_workers() RENAME TO handshake_kept_ensure_workers;
    -- Not our mark: what bears that is dropped when uninstalling.
    EXECUTE format('COMMENT ON FUNCTION pgflow.handshake_kept_ensure_workers() IS %L',
                   'kept by pgflow-operator: ensure_workers() as it was, restored when uninstalling' || coalesce(E'\n' || description, ''));
END
$keep$;
