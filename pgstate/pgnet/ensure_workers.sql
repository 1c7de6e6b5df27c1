-- ensure_workers() for those who keep pg_cron and pg_net: every start that is due is reserved and enqueued, with its
-- invocation's id, in the caller's transaction. pg_net sends after the commit, so nothing is sent that is not reserved,
-- and what was reserved is enqueued once: a later call finds it pending. doc.go has the rules.
CREATE OR REPLACE FUNCTION pgflow.ensure_workers()
RETURNS TABLE (function_name text, invoked boolean, request_id bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $body$
#variable_conflict use_column
DECLARE
    names text[];                    -- of registrations with something to do, in the end those whose lock is held
    starting boolean;                -- whether one of them may be started
    states pgflow.handshake_states[];
    functions_url text;
    auth_key text;
    project text;
    is_local boolean := false;
    headers jsonb := jsonb_build_object('Content-Type', 'application/json');
BEGIN
    PERFORM pgflow.handshake_lock(NULL); -- locks nothing: refuses outside READ COMMITTED

    -- Look first, so that a call that finds nothing to do locks nothing. What this misses is found by the next call.
    SELECT array_agg(l.function_name), bool_or(l.startable)
    INTO names, starting
    FROM (
        SELECT h.function_name,
               h.phase = 'retryable' AND coalesce(h.due_at <= h.now, true)
                   AND pgflow.handshake_path_segment(h.function_name) IS NOT NULL AS startable,
               h.phase <> 'pending' AND h.invocation_id IS NOT NULL AS closable
        FROM pgflow.handshake_states h
    ) l
    WHERE l.startable OR l.closable;
    IF names IS NULL THEN
        RETURN;
    END IF;

    IF starting THEN
        IF to_regclass('vault.decrypted_secrets') IS NOT NULL THEN
            SELECT max(v.secret) FILTER (WHERE v.name = 'pgflow_functions_url'),
                   max(v.secret) FILTER (WHERE v.name = 'supabase_project_id'),
                   coalesce(max(v.secret) FILTER (WHERE v.name = 'pgflow_auth_secret'),
                            max(v.secret) FILTER (WHERE v.name = 'supabase_service_role_key'))
            INTO functions_url, project, auth_key
            FROM (
                SELECT d.name, nullif(rtrim(d.decrypted_secret, E' \t\r\n'), '') AS secret
                FROM vault.decrypted_secrets d
                WHERE d.name IN ('pgflow_functions_url', 'supabase_project_id', 'pgflow_auth_secret', 'supabase_service_role_key')
            ) v;
        END IF;
        IF functions_url IS NULL AND to_regprocedure('pgflow.is_local()') IS NOT NULL THEN
            is_local := pgflow.is_local(); -- a statement of its own: older pgflows have no such function
        END IF;
        IF is_local THEN
            functions_url := 'http://kong:8000/functions/v1'; -- of the Supabase CLI, which wants no key
        ELSE
            functions_url := coalesce(functions_url, 'https://' || project || '.supabase.co/functions/v1');
            -- An error, and not a call that does nothing: it is what cron.job_run_details shows.
            IF functions_url IS NULL THEN
                RAISE EXCEPTION USING ERRCODE = 'PF103',
                    MESSAGE = 'no functions can be started: vault secret pgflow_functions_url or supabase_project_id is missing';
            ELSIF functions_url !~ '^https?://[^/?#@[:space:]]+(/[^?#[:space:]]*)?$' THEN
                RAISE EXCEPTION USING ERRCODE = 'PF103', -- without its value, it is a secret
                    MESSAGE = 'no functions can be started: vault secret pgflow_functions_url (or supabase_project_id) makes no http or https URL without user, query and fragment';
            ELSIF auth_key IS NULL THEN
                RAISE EXCEPTION USING ERRCODE = 'PF103',
                    MESSAGE = 'no functions can be started: vault secret pgflow_auth_secret or supabase_service_role_key is missing';
            END IF;
            functions_url := rtrim(functions_url, '/');
            headers := headers || jsonb_build_object('Authorization', 'Bearer ' || auth_key);
        END IF;
    END IF;

    -- In the order of names; what somebody else holds is his to decide.
    SELECT array_agg(l.function_name) INTO names
    FROM (
        SELECT f.function_name FROM pgflow.worker_functions f
        WHERE f.function_name = ANY (names)
        ORDER BY f.function_name
        FOR NO KEY UPDATE SKIP LOCKED
    ) l;

    -- The reading that decides: begun with every lock held, and with a clock of its own.
    SELECT array_agg(h) INTO states FROM pgflow.handshake_states h WHERE h.function_name = ANY (names);

    -- What reserve_invocation() closes, for all of them.
    PERFORM pgflow.handshake_close(
        s.function_name, s.invocation_id,
        CASE s.phase WHEN 'ready' THEN 'acknowledged' WHEN 'retryable' THEN 'expired' ELSE 'dismissed' END,
        CASE WHEN s.phase IN ('process', 'disabled') THEN s.phase END,
        s.phase = 'retryable', CASE s.phase WHEN 'ready' THEN s.ready_worker_id END, s.now)
    FROM unnest(states) s
    WHERE s.phase <> 'pending' AND s.invocation_id IS NOT NULL;

    RETURN QUERY
    WITH reserved AS (
        UPDATE pgflow.worker_functions f
        SET invocation_id = gen_random_uuid(),
            invocation_expires_at = s.now + f.pending_timeout,
            last_invoked_at = s.now
        FROM unnest(states) s
        WHERE f.function_name = s.function_name
          AND starting AND s.phase = 'retryable' AND coalesce(s.due_at <= s.now, true)
          AND pgflow.handshake_path_segment(s.function_name) IS NOT NULL
        RETURNING f.function_name, f.invocation_id
    )
    SELECT r.function_name, true,
           net.http_post(
               url => functions_url || '/' || pgflow.handshake_path_segment(r.function_name),
               body => '{}'::jsonb,
               headers => headers || jsonb_build_object('X-Pgflow-Invocation-Id', r.invocation_id))
    FROM reserved r
    ORDER BY r.function_name;
END
$body$;
