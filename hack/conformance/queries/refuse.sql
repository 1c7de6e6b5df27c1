-- The database refuses every new worker of the function, for a reason of its own. In pg_temp, so that function and trigger
-- end with the session.
DO $refuse$
BEGIN
    CREATE FUNCTION pg_temp.conformance() RETURNS trigger LANGUAGE plpgsql AS $body$
    BEGIN
        RAISE EXCEPTION 'the conformance kit makes this start fail';
    END
    $body$;
    EXECUTE format('CREATE TRIGGER %I BEFORE INSERT ON pgflow.workers FOR EACH ROW '
        'WHEN (NEW.function_name = %L) EXECUTE FUNCTION pg_temp.conformance()',
        'conformance_' || pg_backend_pid(), current_setting('conformance.function'));
END
$refuse$
