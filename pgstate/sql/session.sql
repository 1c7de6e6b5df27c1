-- A migration's session. Limits that a role carries are for requests: an index built concurrently takes its time and
-- blocks nobody, and the migrations bound their own waits for locks.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET default_transaction_isolation = 'read committed';
SET client_min_messages = warning;
