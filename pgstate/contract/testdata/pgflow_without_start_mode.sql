-- pgflow's two tables as its versions before start_mode have them, with the functions that workers call.
create schema pgflow;
revoke all on schema pgflow from public;

create table pgflow.workers (
    worker_id uuid primary key,
    queue_name text not null,
    function_name text not null,
    started_at timestamptz not null default now(),
    deprecated_at timestamptz,
    stopped_at timestamptz,
    last_heartbeat_at timestamptz not null default now()
);
create index idx_workers_queue_name on pgflow.workers (queue_name);
create index idx_workers_heartbeat on pgflow.workers (last_heartbeat_at);

create table pgflow.worker_functions (
    function_name text primary key,
    enabled boolean not null default true,
    debounce interval not null default interval '6 seconds' check (debounce >= interval '1 second'),
    last_invoked_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);
comment on table pgflow.worker_functions is 'functions that pgflow starts';
comment on column pgflow.worker_functions.debounce is 'how long to wait between two starts';

create function pgflow.track_worker_function(function_name text) returns void language sql as $$
    insert into pgflow.worker_functions as registered (function_name, updated_at) values ($1, clock_timestamp())
    on conflict on constraint worker_functions_pkey do update set updated_at = clock_timestamp()
$$;

create function pgflow.mark_worker_stopped(worker_id uuid) returns void language sql as $$
    update pgflow.workers as w set stopped_at = clock_timestamp() where w.worker_id = $1
$$;
