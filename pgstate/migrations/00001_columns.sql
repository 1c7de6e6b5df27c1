-- The handshake's columns on pgflow's two tables. Adding a column with a constant default rewrites nothing; the checks
-- scan worker_functions only, which has a row per function. Repeatable, and keeps every row.

-- +goose Up
SET LOCAL lock_timeout = '5s';

ALTER TABLE pgflow.worker_functions
    ADD COLUMN IF NOT EXISTS invocation_id uuid,
    ADD COLUMN IF NOT EXISTS invocation_expires_at timestamptz,
    ADD COLUMN IF NOT EXISTS pending_timeout interval NOT NULL DEFAULT interval '60 s'
        CONSTRAINT worker_functions_pending_timeout_range
        CHECK (pending_timeout BETWEEN interval '1 s' AND interval '1 h'),
    ADD COLUMN IF NOT EXISTS heartbeat_timeout interval NOT NULL DEFAULT interval '30 s'
        CONSTRAINT worker_functions_heartbeat_timeout_range
        CHECK (heartbeat_timeout BETWEEN interval '1 s' AND interval '1 h'),
    ADD COLUMN IF NOT EXISTS handshake text NOT NULL DEFAULT 'permissive'
        CONSTRAINT worker_functions_handshake_known CHECK (handshake IN ('permissive', 'required')),
    ADD COLUMN IF NOT EXISTS failed_starts integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS last_invocation_id uuid,
    ADD COLUMN IF NOT EXISTS last_outcome text
        CONSTRAINT worker_functions_last_outcome_known
        CHECK (last_outcome IN ('accepted', 'acknowledged', 'dismissed', 'expired', 'unverified')),
    ADD COLUMN IF NOT EXISTS last_outcome_reason text,
    ADD COLUMN IF NOT EXISTS last_outcome_at timestamptz,
    ADD COLUMN IF NOT EXISTS last_worker_id uuid;

ALTER TABLE pgflow.worker_functions DROP CONSTRAINT IF EXISTS worker_functions_invocation_whole;
ALTER TABLE pgflow.worker_functions ADD CONSTRAINT worker_functions_invocation_whole
    CHECK ((invocation_id IS NULL) = (invocation_expires_at IS NULL));

ALTER TABLE pgflow.workers ADD COLUMN IF NOT EXISTS invocation_id uuid;

COMMENT ON COLUMN pgflow.worker_functions.invocation_id IS 'pgflow-operator: the current invocation; null: none';
COMMENT ON COLUMN pgflow.worker_functions.invocation_expires_at IS 'pgflow-operator: fixed at reservation; null exactly when invocation_id is';
COMMENT ON COLUMN pgflow.worker_functions.pending_timeout IS 'pgflow-operator: how long a reservation may stay pending';
COMMENT ON COLUMN pgflow.worker_functions.heartbeat_timeout IS 'pgflow-operator: how old a healthy worker''s heartbeat may be';
COMMENT ON COLUMN pgflow.worker_functions.handshake IS 'pgflow-operator: whether a worker may register without an invocation (permissive) or not (required)';
COMMENT ON COLUMN pgflow.worker_functions.failed_starts IS 'pgflow-operator: invocations dismissed or expired in a row';
COMMENT ON COLUMN pgflow.worker_functions.last_invocation_id IS 'pgflow-operator: the invocation that ended last';
COMMENT ON COLUMN pgflow.worker_functions.last_outcome IS 'pgflow-operator: how it ended: accepted, acknowledged, dismissed, expired or unverified';
COMMENT ON COLUMN pgflow.worker_functions.last_outcome_reason IS 'pgflow-operator: why it was dismissed';
COMMENT ON COLUMN pgflow.worker_functions.last_outcome_at IS 'pgflow-operator: when it ended';
COMMENT ON COLUMN pgflow.worker_functions.last_worker_id IS 'pgflow-operator: the worker last admitted or acknowledging';
COMMENT ON COLUMN pgflow.workers.invocation_id IS 'pgflow-operator: the invocation that admitted this worker; null: not verified';
COMMENT ON CONSTRAINT worker_functions_pending_timeout_range ON pgflow.worker_functions IS 'pgflow-operator: 1 s to 1 h';
COMMENT ON CONSTRAINT worker_functions_heartbeat_timeout_range ON pgflow.worker_functions IS 'pgflow-operator: 1 s to 1 h';
COMMENT ON CONSTRAINT worker_functions_handshake_known ON pgflow.worker_functions IS 'pgflow-operator: the known modes';
COMMENT ON CONSTRAINT worker_functions_last_outcome_known ON pgflow.worker_functions IS 'pgflow-operator: the known outcomes';
COMMENT ON CONSTRAINT worker_functions_invocation_whole ON pgflow.worker_functions IS 'pgflow-operator: id and expiry go together';

-- +goose StatementBegin
DO $mark$
BEGIN
    IF to_regclass('pgflow.operator_schema_version') IS NOT NULL THEN
        COMMENT ON TABLE pgflow.operator_schema_version IS 'pgflow-operator: the handshake migrations that were applied';
        REVOKE ALL ON TABLE pgflow.operator_schema_version FROM PUBLIC;
    END IF;
END
$mark$;
-- +goose StatementEnd
