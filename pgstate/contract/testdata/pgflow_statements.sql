-- The statements that pgflow and its published workers send, as one worker's life and one tick of the old cron job.
-- $-parameters would need the extended protocol; the worker's id and its function are settings instead.
select pgflow.track_worker_function(current_setting('contract.function'));

insert into pgflow.workers (queue_name, worker_id, function_name)
    values ('queue', current_setting('contract.worker')::uuid, current_setting('contract.function')) returning *;

update pgflow.workers set last_heartbeat_at = clock_timestamp()
    where worker_id = current_setting('contract.worker')::uuid returning deprecated_at is not null;

with due as (
    select f.function_name from pgflow.worker_functions f
    where f.enabled and (f.last_invoked_at is null or f.last_invoked_at < now() - f.debounce)
      and not exists (select from pgflow.workers w where w.function_name = f.function_name and w.stopped_at is null
                      and w.deprecated_at is null and w.last_heartbeat_at > now() - f.debounce))
update pgflow.worker_functions f set last_invoked_at = clock_timestamp() from due where due.function_name = f.function_name;

update pgflow.workers set deprecated_at = clock_timestamp() where worker_id = current_setting('contract.worker')::uuid;

select pgflow.mark_worker_stopped(current_setting('contract.worker')::uuid);

update pgflow.worker_functions set enabled = false, updated_at = now() where function_name = current_setting('contract.function');

update pgflow.worker_functions set enabled = true, updated_at = now() where function_name = current_setting('contract.function');
