-- Refuses before anything is changed: without pgflow (PF100), or where an object that is not ours has one of our names
-- (PF101, DETAIL names each). Ours are known by their comment; an index also by covering a column of ours, because a
-- concurrent build that was interrupted leaves it without one.
DO $preflight$
DECLARE
    strangers text;
BEGIN
    IF to_regclass('pgflow.workers') IS NULL OR to_regclass('pgflow.worker_functions') IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'PF100',
            MESSAGE = 'pgflow is not installed in this database: table pgflow.workers or pgflow.worker_functions is missing',
            HINT = 'Install pgflow first, or for a trial run "manager migrate --create-base-tables".';
    END IF;

    WITH ours(mark) AS (
        VALUES ('pgflow-operator:%')
    ), named_column(relation, name) AS (
        VALUES ('worker_functions', 'invocation_id'), ('worker_functions', 'invocation_expires_at'),
               ('worker_functions', 'pending_timeout'), ('worker_functions', 'heartbeat_timeout'),
               ('worker_functions', 'handshake'), ('worker_functions', 'failed_starts'),
               ('worker_functions', 'last_invocation_id'), ('worker_functions', 'last_outcome'),
               ('worker_functions', 'last_outcome_reason'), ('worker_functions', 'last_outcome_at'),
               ('worker_functions', 'last_worker_id'), ('workers', 'invocation_id')
    ), named_function(name) AS (
        VALUES ('reserve_invocation'), ('receive_invocation'), ('accept_invocation'), ('dismiss_invocation'),
               ('clear_throttle'), ('handshake_lock'), ('handshake_state'), ('handshake_verdict'), ('handshake_close'),
               ('handshake_admit'), ('handshake_consume'), ('handshake_notify')
    ), named_relation(name) AS (
        VALUES ('worker_function_states'), ('handshake_states'), ('workers_invocation_id_idx'), ('workers_handshake_idx')
    ), named_trigger(name) AS (
        VALUES ('handshake_admit'), ('handshake_consume'), ('handshake_notify'), ('handshake_notify_stop'),
               ('handshake_notify_truncate')
    ), named_constraint(name) AS (
        VALUES ('worker_functions_pending_timeout_range'), ('worker_functions_heartbeat_timeout_range'),
               ('worker_functions_handshake_known'), ('worker_functions_last_outcome_known'),
               ('worker_functions_invocation_whole')
    ), stranger(what) AS (
        SELECT format('column pgflow.%I.%I', c.relname, a.attname)
        FROM ours, named_column n
        JOIN pg_catalog.pg_class c ON c.relname = n.relation AND c.relnamespace = 'pgflow'::regnamespace
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = n.name AND a.attnum > 0 AND NOT a.attisdropped
        WHERE coalesce(col_description(c.oid, a.attnum), '') NOT LIKE ours.mark
        UNION ALL
        SELECT format('function pgflow.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid))
        FROM ours, named_function n
        JOIN pg_catalog.pg_proc p ON p.proname = n.name AND p.pronamespace = 'pgflow'::regnamespace
        WHERE coalesce(obj_description(p.oid, 'pg_proc'), '') NOT LIKE ours.mark
        UNION ALL
        SELECT format('%s pgflow.%I',
                      CASE c.relkind WHEN 'v' THEN 'view' WHEN 'i' THEN 'index' WHEN 'm' THEN 'materialized view'
                                     WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relname)
        FROM ours, named_relation n
        JOIN pg_catalog.pg_class c ON c.relname = n.name AND c.relnamespace = 'pgflow'::regnamespace
        WHERE coalesce(obj_description(c.oid, 'pg_class'), '') NOT LIKE ours.mark
          AND NOT (c.relkind = 'i' AND EXISTS (
                SELECT FROM pg_catalog.pg_index i
                JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                WHERE i.indexrelid = c.oid AND col_description(a.attrelid, a.attnum) LIKE ours.mark))
        UNION ALL
        SELECT format('trigger %I on pgflow.%I', t.tgname, c.relname)
        FROM ours, named_trigger n
        JOIN pg_catalog.pg_trigger t ON t.tgname = n.name AND NOT t.tgisinternal
        JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid AND c.relnamespace = 'pgflow'::regnamespace
             AND c.relname IN ('workers', 'worker_functions')
        WHERE coalesce(obj_description(t.oid, 'pg_trigger'), '') NOT LIKE ours.mark
        UNION ALL
        SELECT format('constraint %I on pgflow.worker_functions', k.conname)
        FROM ours, named_constraint n
        JOIN pg_catalog.pg_constraint k ON k.conname = n.name AND k.conrelid = to_regclass('pgflow.worker_functions')
        WHERE coalesce(obj_description(k.oid, 'pg_constraint'), '') NOT LIKE ours.mark
        UNION ALL
        -- The version table gets its comment with the first migration; before that its columns tell.
        SELECT 'table pgflow.operator_schema_version'
        FROM ours, pg_catalog.pg_class c
        WHERE c.oid = to_regclass('pgflow.operator_schema_version')
          AND coalesce(obj_description(c.oid, 'pg_class'), '') NOT LIKE ours.mark
          AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                          WHERE a.attrelid = c.oid AND a.attname = 'version_id' AND NOT a.attisdropped)
    )
    -- One a line: function arguments contain commas.
    SELECT string_agg(what, E'\n' ORDER BY what COLLATE "C") INTO strangers FROM stranger;

    IF strangers IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'PF101',
            MESSAGE = format('objects of another origin have names that the handshake needs: %s', replace(strangers, E'\n', ', ')),
            DETAIL = strangers,
            HINT = 'Nothing was changed. Rename or drop them, then run "manager migrate" again.';
    END IF;
END
$preflight$;
