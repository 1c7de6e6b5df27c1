-- The two tables of pgflow that the handshake builds on, and the two functions that its workers call, for trials and
-- tests on a database without pgflow (`manager migrate --create-base-tables`). With either table present: nothing.
DO $base$
BEGIN
    IF to_regclass('pgflow.workers') IS NOT NULL OR to_regclass('pgflow.worker_functions') IS NOT NULL THEN
        RETURN;
    END IF;

    IF to_regnamespace('pgflow') IS NULL THEN
        CREATE SCHEMA pgflow;
        COMMENT ON SCHEMA pgflow IS 'pgflow-operator: schema for a trial without pgflow';
        REVOKE ALL ON SCHEMA pgflow FROM PUBLIC;
    END IF;

    CREATE TABLE pgflow.worker_functions (
        function_name   text PRIMARY KEY,
        enabled         boolean NOT NULL DEFAULT true,
        debounce        interval NOT NULL DEFAULT interval '6 s' CHECK (debounce >= interval '1 s'),
        last_invoked_at timestamptz,
        start_mode      text NOT NULL DEFAULT 'http' CHECK (start_mode IN ('http', 'process')),
        created_at      timestamptz NOT NULL DEFAULT now(),
        updated_at      timestamptz NOT NULL DEFAULT now()
    );
    COMMENT ON TABLE pgflow.worker_functions IS 'pgflow-operator: base table for a trial without pgflow';

    CREATE TABLE pgflow.workers (
        worker_id         uuid PRIMARY KEY,
        queue_name        text NOT NULL,
        function_name     text NOT NULL,
        started_at        timestamptz NOT NULL DEFAULT now(),
        deprecated_at     timestamptz,
        stopped_at        timestamptz,
        last_heartbeat_at timestamptz NOT NULL DEFAULT now()
    );
    COMMENT ON TABLE pgflow.workers IS 'pgflow-operator: base table for a trial without pgflow';
    CREATE INDEX ON pgflow.workers (queue_name);
    CREATE INDEX ON pgflow.workers (last_heartbeat_at);

    CREATE FUNCTION pgflow.track_worker_function(function_name text, start_mode text DEFAULT 'http') RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $body$
        INSERT INTO pgflow.worker_functions AS f (function_name, start_mode) VALUES ($1, $2)
        ON CONFLICT (function_name) DO UPDATE SET start_mode = excluded.start_mode, updated_at = clock_timestamp();
    $body$;
    COMMENT ON FUNCTION pgflow.track_worker_function(text, text)
        IS 'pgflow-operator: base function for a trial without pgflow: registers a function';

    CREATE FUNCTION pgflow.mark_worker_stopped(worker_id uuid) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp
    AS $body$
        UPDATE pgflow.workers w SET stopped_at = clock_timestamp() WHERE w.worker_id = $1 AND w.stopped_at IS NULL;
    $body$;
    COMMENT ON FUNCTION pgflow.mark_worker_stopped(uuid)
        IS 'pgflow-operator: base function for a trial without pgflow: ends a worker';

    REVOKE ALL ON FUNCTION pgflow.track_worker_function(text, text), pgflow.mark_worker_stopped(uuid) FROM PUBLIC;
END
$base$;
