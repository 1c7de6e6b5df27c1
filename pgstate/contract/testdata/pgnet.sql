-- What a Supabase database has beside pgflow, as far as ensure_workers() sees it. Of pg_net: the function's signature and
-- the rule that a request exists once its transaction has committed. Of the vault: the view, which waits where a test
-- holds the advisory lock 7, so that it can act between two steps of a call. Of pgflow: is_local() and a stand-in for the
-- ensure_workers() before ours.
create schema net;
create unlogged table net.http_request_queue (
    id bigint generated always as identity primary key, method text not null, url text not null, headers jsonb not null,
    body jsonb, params jsonb not null, timeout_milliseconds int not null
);
create function net.http_post(url text, body jsonb default '{}', params jsonb default '{}',
    headers jsonb default '{"Content-Type": "application/json"}', timeout_milliseconds int default 5000)
returns bigint language sql volatile as $$
    insert into net.http_request_queue (method, url, headers, body, params, timeout_milliseconds)
    values ('POST', $1, $4, $2, $3, $5) returning id
$$;

create schema vault;
create table vault.secrets (name text unique, secret text);
create view vault.decrypted_secrets as select name, secret as decrypted_secret from vault.secrets, pg_advisory_xact_lock_shared(7);

create function pgflow.is_local() returns boolean language sql stable set search_path = '' as $$
    select coalesce(current_setting('app.settings.jwt_secret', true) = 'the well-known one', false)
$$;
create function pgflow.ensure_workers() returns table (function_name text, invoked boolean, request_id bigint) language sql as $$
    with due as (
        select f.function_name from pgflow.worker_functions f
        where f.enabled and (f.last_invoked_at is null or f.last_invoked_at < now() - f.debounce)
    ), sent as (
        update pgflow.worker_functions f set last_invoked_at = clock_timestamp() from due where due.function_name = f.function_name
        returning f.function_name, net.http_post('https://old/' || f.function_name) as id
    )
    select sent.function_name, true, sent.id from sent
$$;
comment on function pgflow.ensure_workers() is 'starts workers

in pgflow''s own way';
