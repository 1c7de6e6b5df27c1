-- Drops exactly what is ours, known by its comment, in the order of its dependencies; pgflow then works as before.
-- Tables are ours only where a trial made them (base_tables.sql); while they hold rows they stay, with their functions.
DO $uninstall$
DECLARE
    step text;
    rows_left boolean := false;
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    IF to_regnamespace('pgflow') IS NULL THEN
        RETURN;
    END IF;
    IF to_regclass('pgflow.workers') IS NOT NULL AND to_regclass('pgflow.worker_functions') IS NOT NULL THEN
        SELECT EXISTS (SELECT FROM pgflow.workers) OR EXISTS (SELECT FROM pgflow.worker_functions) INTO rows_left;
    END IF;
    FOR step IN
        WITH ours(mark) AS (
            VALUES ('pgflow-operator:%')
        ), drops(rank, statement) AS (
            SELECT 1, format('DROP TRIGGER %I ON pgflow.%I', t.tgname, c.relname)
            FROM ours, pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
            WHERE c.relnamespace = 'pgflow'::regnamespace AND obj_description(t.oid, 'pg_trigger') LIKE ours.mark
            UNION ALL
            SELECT 2, format('DROP FUNCTION %s', p.oid::regprocedure)
            FROM ours, pg_catalog.pg_proc p
            WHERE p.pronamespace = 'pgflow'::regnamespace AND obj_description(p.oid, 'pg_proc') LIKE ours.mark
              AND NOT (rows_left AND obj_description(p.oid, 'pg_proc') LIKE 'pgflow-operator: base function%')
            UNION ALL
            SELECT CASE c.relname WHEN 'worker_function_states' THEN 3 ELSE 4 END, format('DROP VIEW pgflow.%I', c.relname)
            FROM ours, pg_catalog.pg_class c
            WHERE c.relnamespace = 'pgflow'::regnamespace AND c.relkind = 'v'
              AND obj_description(c.oid, 'pg_class') LIKE ours.mark
            UNION ALL
            SELECT 5, format('DROP INDEX pgflow.%I', c.relname)
            FROM ours, pg_catalog.pg_class c
            WHERE c.relnamespace = 'pgflow'::regnamespace AND c.relkind = 'i'
              AND obj_description(c.oid, 'pg_class') LIKE ours.mark
            UNION ALL
            SELECT 6, format('ALTER TABLE pgflow.%I DROP CONSTRAINT %I', c.relname, k.conname)
            FROM ours, pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
            WHERE c.relnamespace = 'pgflow'::regnamespace AND obj_description(k.oid, 'pg_constraint') LIKE ours.mark
            UNION ALL
            SELECT 7, format('ALTER TABLE pgflow.%I DROP COLUMN %I', c.relname, a.attname)
            FROM ours, pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
            WHERE c.relnamespace = 'pgflow'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
              AND col_description(c.oid, a.attnum) LIKE ours.mark
            UNION ALL
            SELECT 8, format('DROP TABLE pgflow.%I', c.relname)
            FROM ours, pg_catalog.pg_class c
            WHERE c.relnamespace = 'pgflow'::regnamespace AND c.relkind = 'r'
              AND obj_description(c.oid, 'pg_class') LIKE ours.mark
              AND NOT (rows_left AND obj_description(c.oid, 'pg_class') LIKE 'pgflow-operator: base table%')
        )
        SELECT statement FROM drops ORDER BY rank, statement
    LOOP
        EXECUTE step;
    END LOOP;

    IF obj_description(to_regnamespace('pgflow'), 'pg_namespace') LIKE 'pgflow-operator:%'
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = 'pgflow'::regnamespace)
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'pgflow'::regnamespace) THEN
        DROP SCHEMA pgflow;
    END IF;
END
$uninstall$;
