-- An audit of both tables, judged by audit_test.go. Changes of a registration, and the admissions that belong to them,
-- are made under the registration's row lock, so seq orders what happens to one function. healthy is what a definition
-- of the test's own finds at that moment, without the worker just inserted.
CREATE SCHEMA audit;
CREATE TABLE audit.log (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid text NOT NULL DEFAULT pg_current_xact_id()::text,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    relation text NOT NULL,
    function_name text NOT NULL,
    old jsonb,
    new jsonb,
    healthy uuid[] NOT NULL
);

CREATE FUNCTION audit.record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    name text := coalesce(new.function_name, old.function_name);
    born uuid := to_jsonb(new) ->> 'worker_id';
BEGIN
    INSERT INTO audit.log (relation, function_name, old, new, healthy)
    VALUES (tg_table_name, name, to_jsonb(old), to_jsonb(new), ARRAY(
        SELECT w.worker_id FROM pgflow.workers w JOIN pgflow.worker_functions f USING (function_name)
        WHERE w.function_name = name AND w.worker_id IS DISTINCT FROM born
          AND w.stopped_at IS NULL AND w.deprecated_at IS NULL
          AND w.last_heartbeat_at > clock_timestamp() - f.heartbeat_timeout));
    RETURN NULL;
END $$;

CREATE TRIGGER zz_audit AFTER INSERT OR UPDATE OR DELETE ON pgflow.worker_functions
    FOR EACH ROW EXECUTE FUNCTION audit.record();
CREATE TRIGGER zz_audit AFTER INSERT ON pgflow.workers
    FOR EACH ROW EXECUTE FUNCTION audit.record();
