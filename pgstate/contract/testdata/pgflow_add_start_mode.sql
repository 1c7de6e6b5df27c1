-- What a later pgflow does to the tables by itself.
alter table pgflow.worker_functions add column start_mode text not null default 'http'
    check (start_mode in ('http', 'process'));
drop function pgflow.track_worker_function(text);
create function pgflow.track_worker_function(function_name text, start_mode text default 'http') returns void language sql as $$
    insert into pgflow.worker_functions as registered (function_name, start_mode, updated_at) values ($1, $2, clock_timestamp())
    on conflict on constraint worker_functions_pkey do update set start_mode = excluded.start_mode, updated_at = clock_timestamp()
$$;
