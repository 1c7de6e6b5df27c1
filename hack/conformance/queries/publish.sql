-- A session that inserts a worker of the function shows the worker's id, in two locks that outlive its transaction, and
-- waits for the lock of this session. By the trigger's name that is after the handshake's own check, under the
-- registration's lock. In pg_temp, so that function and trigger end with the session.
DO $publish$
BEGIN
    CREATE FUNCTION pg_temp.conformance() RETURNS trigger LANGUAGE plpgsql AS $body$
    DECLARE
        digits text := replace(NEW.worker_id::text, '-', '');
    BEGIN
        PERFORM pg_advisory_lock_shared(('x' || left(digits, 16))::bit(64)::bigint);
        PERFORM pg_advisory_lock(('x' || right(digits, 16))::bit(64)::bigint);
        PERFORM pg_advisory_xact_lock(TG_ARGV[0]::integer, 1);
        RETURN NEW;
    END
    $body$;
    EXECUTE format('CREATE TRIGGER %I BEFORE INSERT ON pgflow.workers FOR EACH ROW '
        'WHEN (NEW.function_name = %L) EXECUTE FUNCTION pg_temp.conformance(%L)',
        'zz_conformance_' || pg_backend_pid(), current_setting('conformance.function'), pg_backend_pid());
END
$publish$
