-- Both indexes are built concurrently: pgflow.workers is never pruned, and a plain build would block every worker's
-- registration for as long as it reads millions of rows. A build that was interrupted is dropped and begun again.

-- +goose NO TRANSACTION
-- +goose Up

-- +goose StatementBegin
DO $leftover$
DECLARE
    leftover name;
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    FOR leftover IN
        SELECT c.relname FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
        WHERE c.relnamespace = 'pgflow'::regnamespace AND NOT i.indisvalid
          AND c.relname IN ('workers_invocation_id_idx', 'workers_handshake_idx')
    LOOP
        EXECUTE format('DROP INDEX pgflow.%I', leftover);
    END LOOP;
END
$leftover$;
-- +goose StatementEnd

-- One invocation admits at most one worker, ever (invariant 2).
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS workers_invocation_id_idx
    ON pgflow.workers (invocation_id) WHERE invocation_id IS NOT NULL;

-- Finds a function's healthy workers without reading its dead ones: those that were killed stay "not stopped" for ever,
-- so the heartbeat bounds the range.
CREATE INDEX CONCURRENTLY IF NOT EXISTS workers_handshake_idx
    ON pgflow.workers (function_name, last_heartbeat_at) INCLUDE (worker_id, invocation_id)
    WHERE stopped_at IS NULL AND deprecated_at IS NULL;

COMMENT ON INDEX pgflow.workers_invocation_id_idx IS 'pgflow-operator: one invocation admits at most one worker';
COMMENT ON INDEX pgflow.workers_handshake_idx IS 'pgflow-operator: the healthy workers of a function';
