-- Store.UpdateRegistration and the second half of CreateRegistration. Null
-- leaves a column alone. Durations are microseconds.
UPDATE pgflow.worker_functions
SET enabled           = coalesce($2::boolean, enabled),
    debounce          = coalesce($3::bigint * interval '1 microsecond', debounce),
    pending_timeout   = coalesce($4::bigint * interval '1 microsecond', pending_timeout),
    heartbeat_timeout = coalesce($5::bigint * interval '1 microsecond', heartbeat_timeout),
    handshake         = coalesce($6::text, handshake),
    updated_at        = now()
WHERE function_name = $1::text
