-- A registration on which nothing has happened yet. The start mode is written apart: not every pgflow has one.
INSERT INTO pgflow.worker_functions AS f (function_name, debounce, pending_timeout, heartbeat_timeout)
VALUES ($1::text, interval '6 s', interval '60 s', interval '30 s')
ON CONFLICT (function_name) DO UPDATE
SET enabled = true,
    debounce = excluded.debounce,
    pending_timeout = excluded.pending_timeout,
    heartbeat_timeout = excluded.heartbeat_timeout,
    handshake = 'permissive',
    last_invoked_at = NULL,
    invocation_id = NULL,
    invocation_expires_at = NULL,
    failed_starts = 0,
    last_invocation_id = NULL,
    last_outcome = NULL,
    last_outcome_reason = NULL,
    last_outcome_at = NULL,
    last_worker_id = NULL
