-- Heartbeats of the function's workers have no effect, as if the loops were too busy to beat, except those that
-- receive_invocation makes in a loop's name.
DO $silence$
BEGIN
    CREATE FUNCTION pg_temp.conformance() RETURNS trigger LANGUAGE plpgsql AS $body$
    DECLARE
        stack text;
    BEGIN
        GET DIAGNOSTICS stack = PG_CONTEXT;
        IF stack NOT LIKE '%receive_invocation(%' THEN
            NEW.last_heartbeat_at := OLD.last_heartbeat_at;
        END IF;
        RETURN NEW;
    END
    $body$;
    EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE ON pgflow.workers FOR EACH ROW '
        'WHEN (NEW.function_name = %L) EXECUTE FUNCTION pg_temp.conformance()',
        'conformance_' || pg_backend_pid(), current_setting('conformance.function'));
END
$silence$
