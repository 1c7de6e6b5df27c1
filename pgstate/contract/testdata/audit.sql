-- An audit of both tables. Changes of a registration, and the admissions that belong to them, are made under the
-- registration's row lock, so that seq orders what happens to one function. healthy is what a definition of the
-- test's own finds at that moment.
create schema audit;
create table audit.log (
    seq bigint generated always as identity primary key,
    xid text not null default pg_current_xact_id()::text,
    at timestamptz not null default clock_timestamp(),
    actor text not null default coalesce(current_setting('audit.actor', true), ''),
    relation text not null,
    function_name text not null,
    old jsonb,
    new jsonb,
    healthy uuid[]
);

create function audit.record() returns trigger language plpgsql security definer as $$
declare
    name text := coalesce(new.function_name, old.function_name);
begin
    insert into audit.log (relation, function_name, old, new, healthy)
    values (tg_table_name, name, to_jsonb(old), to_jsonb(new), array(
        select w.worker_id from pgflow.workers w join pgflow.worker_functions f using (function_name)
        where w.function_name = name and w.stopped_at is null and w.deprecated_at is null
          and w.last_heartbeat_at > clock_timestamp() - f.heartbeat_timeout));
    return null;
end $$;

create trigger zz_audit after insert or update or delete on pgflow.worker_functions
    for each row execute function audit.record();
create trigger zz_audit after insert or delete on pgflow.workers
    for each row execute function audit.record();
