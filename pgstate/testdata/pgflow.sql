-- What the handshake builds on, as an older pgflow has it: without start_mode.
CREATE SCHEMA pgflow;
REVOKE ALL ON SCHEMA pgflow FROM PUBLIC;
CREATE TABLE pgflow.worker_functions (
    function_name text PRIMARY KEY,
    enabled boolean NOT NULL DEFAULT true,
    debounce interval NOT NULL DEFAULT interval '6 seconds' CHECK (debounce >= interval '1 second'),
    last_invoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE pgflow.workers (
    worker_id uuid PRIMARY KEY,
    queue_name text NOT NULL,
    function_name text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    deprecated_at timestamptz,
    stopped_at timestamptz,
    last_heartbeat_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX workers_queue_name_idx ON pgflow.workers (queue_name);
CREATE INDEX workers_last_heartbeat_at_idx ON pgflow.workers (last_heartbeat_at);
INSERT INTO pgflow.worker_functions (function_name, debounce) VALUES ('old', '7 seconds');
INSERT INTO pgflow.workers (worker_id, queue_name, function_name)
VALUES ('00000000-0000-4000-8000-000000000001', 'old', 'old');
