-- The handshake itself: one definition of the state (views), the operations, and the rules for direct inserts
-- (triggers). doc.go of package pgstate has the invariants. Everything here is replaced in place, so it is repeatable.

-- +goose Up
SET LOCAL lock_timeout = '5s';

-- ---------------------------------------------------------------------------------------------------------------------
-- The state: one definition of healthy, pending and due, for the operations, the operator and a person with psql.

-- start_mode is read through to_jsonb because pgflow may add it later; it then counts without another installation.
-- The clock is read once per statement, so the caller who holds a registration's lock reads a time that is after it.
CREATE OR REPLACE VIEW pgflow.handshake_states AS
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
)
SELECT
    f.function_name,
    coalesce(f.enabled, false) AS enabled,
    registration.start_mode,
    f.handshake,
    CASE
        WHEN registration.start_mode <> 'http' THEN 'process' -- also a mode that a later pgflow adds
        WHEN NOT coalesce(f.enabled, false) THEN 'disabled'
        WHEN ready.worker_id IS NOT NULL THEN 'ready'
        WHEN invocation.pending THEN 'pending'
        ELSE 'retryable'
    END AS phase,
    ready.worker_id AS ready_worker_id,
    ready.verified,
    -- Written so that only the primary key can serve it: the index of all verified workers grows for ever.
    f.handshake = 'required' OR coalesce((
        SELECT w.invocation_id IS NOT NULL FROM pgflow.workers w
        WHERE w.worker_id = f.last_worker_id AND w.function_name = f.function_name
    ), false) AS takes_part,
    ready.last_heartbeat_at,
    f.heartbeat_timeout,
    f.invocation_id,
    f.invocation_expires_at,
    throttle.due_at,
    f.failed_starts,
    f.last_invocation_id,
    f.last_outcome,
    f.last_outcome_reason,
    f.last_outcome_at,
    f.last_worker_id,
    f.pending_timeout,
    invocation.pending,
    clock.now
FROM pgflow.worker_functions f
CROSS JOIN clock
CROSS JOIN LATERAL (
    SELECT coalesce(to_jsonb(f) ->> 'start_mode', 'http') AS start_mode
) registration
LEFT JOIN LATERAL (
    SELECT w.worker_id, w.last_heartbeat_at, w.invocation_id IS NOT NULL AS verified
    FROM pgflow.workers w
    WHERE w.function_name = f.function_name
      AND w.stopped_at IS NULL
      AND w.deprecated_at IS NULL
      AND w.last_heartbeat_at > clock.now - f.heartbeat_timeout
      AND w.last_heartbeat_at <= clock.now + interval '5 s' -- later: the clock stepped back, it counts as long past
    ORDER BY w.invocation_id IS NULL, w.last_heartbeat_at DESC, w.worker_id
    LIMIT 1
) ready ON true
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN f.last_invoked_at <= clock.now + interval '5 s' THEN f.last_invoked_at END AS invoked_at,
        f.invocation_id IS NOT NULL
            AND f.invocation_expires_at > clock.now
            AND coalesce(f.last_invoked_at <= clock.now + interval '5 s', true) AS pending
) invocation
CROSS JOIN LATERAL (
    -- A current invocation that has expired counts already as the failed start that it is closed as later.
    SELECT f.invocation_id IS NOT NULL AND NOT invocation.pending AS expired
) open
CROSS JOIN LATERAL (
    -- Bounded before it is calculated with: whatever a person wrote into one row, the others must stay readable.
    SELECT invocation.invoked_at + greatest(
        bounded.debounce,
        least(
            least(bounded.debounce, interval '5 min')
                * power(2, least(greatest(f.failed_starts, 0), 6) + open.expired::integer),
            interval '5 min'
        ),
        CASE
            WHEN NOT open.expired AND f.last_outcome = 'dismissed'
                AND f.last_outcome_reason IN ('auth_rejected', 'route_not_found') THEN interval '5 min'
            ELSE interval '0'
        END
    ) AS due_at
    FROM (SELECT least(coalesce(f.debounce, interval '6 s'), interval '1000 years') AS debounce) bounded
) throttle;

CREATE OR REPLACE VIEW pgflow.worker_function_states AS
SELECT
    function_name, enabled, start_mode, handshake, phase, ready_worker_id, verified, takes_part, last_heartbeat_at,
    heartbeat_timeout, invocation_id, invocation_expires_at,
    CASE WHEN phase = 'retryable' THEN due_at END AS retry_at,
    failed_starts, last_invocation_id, last_outcome, last_outcome_reason, last_outcome_at, last_worker_id
FROM pgflow.handshake_states;

-- ---------------------------------------------------------------------------------------------------------------------
-- What the operations are made of.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.handshake_lock(function_name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    -- The statement after this one must see what was committed while it waited for the lock.
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = 'active_sql_transaction', -- 25001
            MESSAGE = format('the handshake needs isolation level READ COMMITTED, this transaction is %s',
                             upper(current_setting('transaction_isolation')));
    END IF;
    PERFORM FROM pgflow.worker_functions f WHERE f.function_name = $1 FOR NO KEY UPDATE;
    RETURN FOUND;
END
$body$;
-- +goose StatementEnd

-- Runs as its owner, so that the operations need no privilege on the view. In plpgsql, because that keeps the plan: to
-- plan the view at each call costs as much as the rest of an operation.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.handshake_state(function_name text) RETURNS pgflow.handshake_states
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    s pgflow.handshake_states;
BEGIN
    SELECT h.* INTO s FROM pgflow.handshake_states h WHERE h.function_name = $1;
    RETURN s;
END
$body$;
-- +goose StatementEnd

-- Closes the current invocation, if it is still this one. A failed start is one that was dismissed or ran out.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.handshake_close(
    function_name text, invocation_id uuid, outcome text, reason text, failed boolean, worker_id uuid, at timestamptz
) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    UPDATE pgflow.worker_functions f
    SET invocation_id = NULL,
        invocation_expires_at = NULL,
        last_invocation_id = f.invocation_id,
        last_outcome = $3,
        last_outcome_reason = left($4, 256),
        last_outcome_at = $7,
        failed_starts = CASE
            WHEN $3 IN ('accepted', 'acknowledged', 'unverified') THEN 0
            WHEN $5 THEN least(f.failed_starts, 1000000) + 1 -- whatever a person wrote, it must not overflow
            ELSE f.failed_starts
        END,
        last_worker_id = coalesce($6, f.last_worker_id)
    WHERE f.function_name = $1 AND f.invocation_id = $2;
    RETURN FOUND;
END
$body$;
-- +goose StatementEnd

-- The verdict on an id, by the registration's state read under its lock. Changes nothing: closes names the outcome that
-- the caller is to close the current invocation with (only ever the one that was asked about), null for none. A free
-- invocation is 'start'.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.handshake_verdict(
    s pgflow.handshake_states, invocation_id uuid, worker_id uuid, accepting boolean,
    OUT verdict text, OUT reason text, OUT closes text
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    admitted pgflow.workers;
    used boolean;
BEGIN
    verdict := 'rejected';
    IF s.function_name IS NULL OR $2 IS NULL THEN
        reason := 'unknown';
        RETURN;
    END IF;

    SELECT w.* INTO admitted FROM pgflow.workers w WHERE w.invocation_id = $2 AND w.function_name = s.function_name;
    used := FOUND OR (s.last_invocation_id = $2 AND s.last_outcome = 'accepted'); -- its row may have been deleted
    IF used THEN
        IF accepting AND admitted.worker_id = $3 AND admitted.stopped_at IS NULL AND admitted.deprecated_at IS NULL
            AND admitted.last_heartbeat_at > s.now - s.heartbeat_timeout
            AND admitted.last_heartbeat_at <= s.now + interval '5 s' THEN
            verdict := 'accepted';
        ELSIF s.ready_worker_id IS NOT NULL THEN
            verdict := 'acknowledged';
        ELSE
            reason := 'taken';
        END IF;
    ELSIF s.phase IN ('process', 'disabled') THEN
        reason := s.phase;
        IF s.invocation_id = $2 THEN
            closes := 'dismissed';
        END IF;
    ELSIF s.invocation_id IS DISTINCT FROM $2 AND s.last_invocation_id = $2 THEN
        CASE s.last_outcome
            WHEN 'dismissed', 'expired' THEN
                reason := s.last_outcome;
            WHEN 'unverified' THEN
                reason := 'superseded';
            ELSE -- acknowledged
                IF s.ready_worker_id IS NOT NULL THEN
                    verdict := 'acknowledged';
                ELSE
                    reason := 'taken';
                END IF;
        END CASE;
    ELSIF s.invocation_id IS DISTINCT FROM $2 THEN
        reason := 'unknown';
    ELSIF NOT s.pending THEN
        reason := 'expired';
    ELSIF s.ready_worker_id IS NOT NULL THEN
        verdict := 'acknowledged';
        closes := 'acknowledged';
    ELSIF accepting AND EXISTS (SELECT FROM pgflow.workers w WHERE w.worker_id = $3) THEN
        reason := 'worker_used';
    ELSE
        verdict := 'start';
    END IF;
END
$body$;
-- +goose StatementEnd

-- ---------------------------------------------------------------------------------------------------------------------
-- The operations.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.reserve_invocation(
    function_name text,
    OUT decision text, OUT invocation_id uuid, OUT expires_at timestamptz, OUT retry_at timestamptz, OUT ready_worker_id uuid
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $body$
#variable_conflict use_column
DECLARE
    s pgflow.handshake_states;
BEGIN
    IF NOT pgflow.handshake_lock($1) THEN
        decision := 'unknown';
        RETURN;
    END IF;
    s := pgflow.handshake_state($1);

    CASE s.phase
        WHEN 'process', 'disabled' THEN
            decision := s.phase;
            PERFORM pgflow.handshake_close($1, s.invocation_id, 'dismissed', s.phase, false, NULL, s.now);
        WHEN 'ready' THEN
            decision := 'ready';
            ready_worker_id := s.ready_worker_id;
            PERFORM pgflow.handshake_close($1, s.invocation_id, 'acknowledged', NULL, false, s.ready_worker_id, s.now);
        WHEN 'pending' THEN
            decision := 'pending';
            invocation_id := s.invocation_id;
            expires_at := s.invocation_expires_at;
        ELSE -- retryable
            PERFORM pgflow.handshake_close($1, s.invocation_id, 'expired', NULL, true, NULL, s.now);
            IF s.due_at > s.now THEN
                decision := 'throttled';
                retry_at := s.due_at;
            ELSE
                decision := 'reserved';
                UPDATE pgflow.worker_functions f
                SET invocation_id = gen_random_uuid(),
                    invocation_expires_at = s.now + f.pending_timeout,
                    last_invoked_at = s.now
                WHERE f.function_name = $1
                RETURNING f.invocation_id, f.invocation_expires_at
                INTO STRICT invocation_id, expires_at;
            END IF;
    END CASE;
END
$body$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.receive_invocation(
    function_name text, invocation_id uuid, worker_id uuid,
    OUT verdict text, OUT reason text, OUT ready_worker_id uuid, OUT expires_at timestamptz
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $body$
#variable_conflict use_column
DECLARE
    s pgflow.handshake_states;
    v record;
BEGIN
    IF pgflow.handshake_lock($1) THEN
        -- The caller's own loop may be too busy to beat.
        UPDATE pgflow.workers w SET last_heartbeat_at = clock_timestamp()
        WHERE w.worker_id = $3 AND w.function_name = $1 AND w.stopped_at IS NULL AND w.deprecated_at IS NULL;
        s := pgflow.handshake_state($1);
    END IF;
    v := pgflow.handshake_verdict(s, $2, $3, false);
    IF v.closes IS NOT NULL THEN
        PERFORM pgflow.handshake_close($1, $2, v.closes, v.reason, false,
                                       CASE v.closes WHEN 'acknowledged' THEN s.ready_worker_id END, s.now);
    END IF;
    verdict := v.verdict;
    reason := v.reason;
    ready_worker_id := s.ready_worker_id;
    IF v.verdict = 'start' THEN
        expires_at := s.invocation_expires_at;
    END IF;
END
$body$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.accept_invocation(
    function_name text, invocation_id uuid, worker_id uuid, queue_name text,
    OUT verdict text, OUT reason text, OUT ready_worker_id uuid
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $body$
#variable_conflict use_column
DECLARE
    s pgflow.handshake_states;
    v record;
BEGIN
    IF $3 IS NULL OR $4 IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', -- 22004
            MESSAGE = 'accept_invocation needs a worker id and a queue name';
    END IF;
    IF pgflow.handshake_lock($1) THEN
        s := pgflow.handshake_state($1);
    END IF;
    v := pgflow.handshake_verdict(s, $2, $3, true);
    IF v.closes IS NOT NULL THEN
        PERFORM pgflow.handshake_close($1, $2, v.closes, v.reason, false,
                                       CASE v.closes WHEN 'acknowledged' THEN s.ready_worker_id END, s.now);
    END IF;
    verdict := v.verdict;
    reason := v.reason;
    ready_worker_id := s.ready_worker_id;
    IF v.verdict = 'start' THEN
        -- Its triggers consume the invocation: inserting and consuming are this one statement.
        INSERT INTO pgflow.workers (worker_id, queue_name, function_name, invocation_id)
        VALUES ($3, $4, $1, $2)
        ON CONFLICT (worker_id) DO NOTHING;
        IF FOUND THEN
            verdict := 'accepted';
            ready_worker_id := $3;
        ELSE -- registered for another function since the verdict
            verdict := 'rejected';
            reason := 'worker_used';
        END IF;
    END IF;
END
$body$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.dismiss_invocation(
    function_name text, invocation_id uuid, reason text, OUT dismissed boolean
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $body$
#variable_conflict use_column
DECLARE
    s pgflow.handshake_states;
BEGIN
    dismissed := false;
    IF pgflow.handshake_lock($1) THEN
        s := pgflow.handshake_state($1);
        IF s.pending AND s.invocation_id = $2 THEN
            dismissed := pgflow.handshake_close($1, $2, 'dismissed', $3, true, NULL, s.now);
        END IF;
    END IF;
END
$body$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.clear_throttle(function_name text, OUT cleared boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $body$
#variable_conflict use_column
DECLARE
    s pgflow.handshake_states;
BEGIN
    cleared := false;
    IF NOT pgflow.handshake_lock($1) THEN
        RETURN;
    END IF;
    s := pgflow.handshake_state($1);
    IF s.pending THEN
        RETURN;
    END IF;
    PERFORM pgflow.handshake_close($1, s.invocation_id, 'expired', NULL, true, NULL, s.now);
    UPDATE pgflow.worker_functions f SET failed_starts = 0, last_invoked_at = NULL WHERE f.function_name = $1;
    cleared := true;
END
$body$;
-- +goose StatementEnd

-- ---------------------------------------------------------------------------------------------------------------------
-- Direct inserts into pgflow.workers follow the same rules. Two triggers, because only rows really inserted may consume
-- anything: INSERT ... ON CONFLICT fires the first for rows that it then updates. They run as their owner, so that a
-- role which could insert a worker before still can.

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.handshake_admit() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $body$
DECLARE
    s pgflow.handshake_states;
    v record;
BEGIN
    IF EXISTS (SELECT FROM pgflow.workers w WHERE w.worker_id = NEW.worker_id) THEN
        RETURN NEW; -- a heartbeat by INSERT ... ON CONFLICT, or the primary key's business
    END IF;

    IF NEW.invocation_id IS NOT NULL THEN
        IF pgflow.handshake_lock(NEW.function_name) THEN
            s := pgflow.handshake_state(NEW.function_name);
        END IF;
        v := pgflow.handshake_verdict(s, NEW.invocation_id, NEW.worker_id, true);
        IF v.verdict <> 'start' THEN
            RAISE EXCEPTION USING ERRCODE = 'PF001',
                MESSAGE = format('worker %s may not start with invocation %s', NEW.worker_id, NEW.invocation_id),
                DETAIL = coalesce(v.reason, v.verdict);
        END IF;
    ELSE
        -- No isolation check: nothing is decided here by reading workers, and a published worker must go on working.
        PERFORM FROM pgflow.worker_functions f WHERE f.function_name = NEW.function_name FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            RETURN NEW;
        END IF;
        s := pgflow.handshake_state(NEW.function_name);
        IF s.start_mode <> 'http' THEN
            RETURN NEW;
        END IF;
        IF s.handshake = 'required' THEN
            RAISE EXCEPTION USING ERRCODE = 'PF001',
                MESSAGE = format('function %s requires an invocation, worker %s has none', NEW.function_name, NEW.worker_id),
                DETAIL = 'tokenless';
        END IF;
    END IF;

    IF NEW.stopped_at IS NULL AND NEW.deprecated_at IS NULL THEN
        NEW.started_at := s.now; -- a column default would be the transaction's start, stale after a lock wait
        NEW.last_heartbeat_at := s.now;
    END IF;
    RETURN NEW;
END
$body$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.handshake_consume() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $body$
DECLARE
    s pgflow.handshake_states;
BEGIN
    IF NEW.invocation_id IS NOT NULL THEN
        IF NOT pgflow.handshake_close(NEW.function_name, NEW.invocation_id, 'accepted', NULL, false, NEW.worker_id,
                                      NEW.started_at) THEN
            RAISE EXCEPTION USING ERRCODE = 'PF001',
                MESSAGE = format('invocation %s was consumed by another row of this statement', NEW.invocation_id),
                DETAIL = 'taken';
        END IF;
        RETURN NULL;
    END IF;

    s := pgflow.handshake_state(NEW.function_name);
    IF s.start_mode = 'http'
        AND NOT pgflow.handshake_close(NEW.function_name, s.invocation_id, 'unverified', NULL, false, NEW.worker_id,
                                       NEW.started_at) THEN
        UPDATE pgflow.worker_functions f SET failed_starts = 0, last_worker_id = NEW.worker_id
        WHERE f.function_name = NEW.function_name;
    END IF;
    RETURN NULL;
END
$body$;
-- +goose StatementEnd

-- Tells who listens that a registration, or the workers of a function, changed in a way that a decision depends on.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pgflow.handshake_notify() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    changed text;
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN -- truncated
        PERFORM pg_notify('pgflow_worker_functions', '');
        RETURN NULL;
    END IF;
    IF TG_TABLE_NAME = 'worker_functions' AND TG_OP = 'UPDATE'
        AND to_jsonb(OLD) - '{created_at,updated_at}'::text[] = to_jsonb(NEW) - '{created_at,updated_at}'::text[] THEN
        RETURN NULL;
    END IF;
    FOR changed IN
        SELECT DISTINCT n FROM unnest(ARRAY[
            CASE WHEN TG_OP <> 'INSERT' THEN OLD.function_name END,
            CASE WHEN TG_OP <> 'DELETE' THEN NEW.function_name END]) n
        WHERE n IS NOT NULL
    LOOP
        -- 7,999 bytes is the longest payload; an empty one means "look at all".
        PERFORM pg_notify('pgflow_worker_functions', CASE WHEN octet_length(changed) <= 7999 THEN changed ELSE '' END);
    END LOOP;
    RETURN NULL;
END
$body$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER handshake_admit BEFORE INSERT ON pgflow.workers
    FOR EACH ROW EXECUTE FUNCTION pgflow.handshake_admit();
-- A row that was inserted as already stopped or deprecated is no worker, and closes nothing.
CREATE OR REPLACE TRIGGER handshake_consume AFTER INSERT ON pgflow.workers
    FOR EACH ROW WHEN (NEW.stopped_at IS NULL AND NEW.deprecated_at IS NULL)
    EXECUTE FUNCTION pgflow.handshake_consume();
CREATE OR REPLACE TRIGGER handshake_notify AFTER INSERT OR DELETE ON pgflow.workers
    FOR EACH ROW EXECUTE FUNCTION pgflow.handshake_notify();
-- Never on a heartbeat: commits that notify queue on one lock of the whole server.
CREATE OR REPLACE TRIGGER handshake_notify_stop AFTER UPDATE ON pgflow.workers
    FOR EACH ROW WHEN (OLD.stopped_at IS DISTINCT FROM NEW.stopped_at
                       OR OLD.deprecated_at IS DISTINCT FROM NEW.deprecated_at
                       OR OLD.function_name IS DISTINCT FROM NEW.function_name)
    EXECUTE FUNCTION pgflow.handshake_notify();
CREATE OR REPLACE TRIGGER handshake_notify_truncate AFTER TRUNCATE ON pgflow.workers
    FOR EACH STATEMENT EXECUTE FUNCTION pgflow.handshake_notify();
CREATE OR REPLACE TRIGGER handshake_notify AFTER INSERT OR UPDATE OR DELETE ON pgflow.worker_functions
    FOR EACH ROW EXECUTE FUNCTION pgflow.handshake_notify();
CREATE OR REPLACE TRIGGER handshake_notify_truncate AFTER TRUNCATE ON pgflow.worker_functions
    FOR EACH STATEMENT EXECUTE FUNCTION pgflow.handshake_notify();

-- ---------------------------------------------------------------------------------------------------------------------
-- Marks, by which installing and uninstalling know what is ours, and privileges.

COMMENT ON VIEW pgflow.handshake_states IS 'pgflow-operator: the state of every registration, for the operations';
COMMENT ON VIEW pgflow.worker_function_states IS 'pgflow-operator: the state of every registration: process, disabled, ready, pending or retryable';
COMMENT ON FUNCTION pgflow.handshake_lock(text) IS 'pgflow-operator: locks a registration; false: there is none';
COMMENT ON FUNCTION pgflow.handshake_state(text) IS 'pgflow-operator: the state of one registration';
COMMENT ON FUNCTION pgflow.handshake_close(text, uuid, text, text, boolean, uuid, timestamptz) IS 'pgflow-operator: closes the current invocation';
COMMENT ON FUNCTION pgflow.handshake_verdict(pgflow.handshake_states, uuid, uuid, boolean) IS 'pgflow-operator: the verdict on an invocation id';
COMMENT ON FUNCTION pgflow.reserve_invocation(text) IS 'pgflow-operator: reserves the start of a function, if one is needed and due';
COMMENT ON FUNCTION pgflow.receive_invocation(text, uuid, uuid) IS 'pgflow-operator: what a runtime is to do with an invocation that it received';
COMMENT ON FUNCTION pgflow.accept_invocation(text, uuid, uuid, text) IS 'pgflow-operator: registers a worker and consumes its invocation';
COMMENT ON FUNCTION pgflow.dismiss_invocation(text, uuid, text) IS 'pgflow-operator: ends a pending invocation as failed';
COMMENT ON FUNCTION pgflow.clear_throttle(text) IS 'pgflow-operator: makes the next attempt due now';
COMMENT ON FUNCTION pgflow.handshake_admit() IS 'pgflow-operator: validates a worker row before it is inserted';
COMMENT ON FUNCTION pgflow.handshake_consume() IS 'pgflow-operator: consumes the invocation of an inserted worker row';
COMMENT ON FUNCTION pgflow.handshake_notify() IS 'pgflow-operator: notifies channel pgflow_worker_functions';
COMMENT ON TRIGGER handshake_admit ON pgflow.workers IS 'pgflow-operator: validates a worker row before it is inserted';
COMMENT ON TRIGGER handshake_consume ON pgflow.workers IS 'pgflow-operator: consumes the invocation of an inserted worker row';
COMMENT ON TRIGGER handshake_notify ON pgflow.workers IS 'pgflow-operator: notifies of new and deleted workers';
COMMENT ON TRIGGER handshake_notify_stop ON pgflow.workers IS 'pgflow-operator: notifies of stopped and deprecated workers';
COMMENT ON TRIGGER handshake_notify_truncate ON pgflow.workers IS 'pgflow-operator: notifies that all workers are gone';
COMMENT ON TRIGGER handshake_notify ON pgflow.worker_functions IS 'pgflow-operator: notifies of a changed registration';
COMMENT ON TRIGGER handshake_notify_truncate ON pgflow.worker_functions IS 'pgflow-operator: notifies that all registrations are gone';

-- Nothing for PUBLIC, nor for the roles under which Supabase publishes a database.
-- +goose StatementBegin
DO $privileges$
DECLARE
    object text;
    grantee text;
BEGIN
    FOR grantee IN
        SELECT 'PUBLIC' UNION ALL
        SELECT quote_ident(rolname) FROM pg_catalog.pg_roles WHERE rolname IN ('anon', 'authenticated')
    LOOP
        FOR object IN
            SELECT 'FUNCTION ' || p.oid::regprocedure FROM pg_catalog.pg_proc p
            WHERE p.pronamespace = 'pgflow'::regnamespace AND obj_description(p.oid, 'pg_proc') LIKE 'pgflow-operator:%'
            UNION ALL
            SELECT format('TABLE pgflow.%I', c.relname) FROM pg_catalog.pg_class c
            WHERE c.relnamespace = 'pgflow'::regnamespace AND c.relkind IN ('r', 'v')
              AND obj_description(c.oid, 'pg_class') LIKE 'pgflow-operator:%'
            UNION ALL
            SELECT format('SEQUENCE pgflow.%I', c.relname) FROM pg_catalog.pg_class c
            JOIN pg_catalog.pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')
            WHERE c.relnamespace = 'pgflow'::regnamespace AND c.relkind = 'S'
              AND d.refclassid = 'pg_class'::regclass
              AND obj_description(d.refobjid, 'pg_class') LIKE 'pgflow-operator:%'
        LOOP
            EXECUTE format('REVOKE ALL ON %s FROM %s', object, grantee);
        END LOOP;
    END LOOP;
END
$privileges$;
-- +goose StatementEnd
