// Package pgstate is the startup handshake in PostgreSQL: its tables' columns, operations and triggers (migrations/),
// and a small typed [Store] over them. It decides nothing that the database does not decide under a row lock, and it is
// the only package that knows SQL, SQLSTATEs and connection strings.
//
// # States of a registration
//
//	                      reserve: due
//	   +-------------+ ------------------------> +-------------+
//	   |  retryable  |                           |   pending   | --- receive: changes nothing
//	   +-------------+ <------------------------ +-------------+
//	      |       ^      expires, or is dismissed    |     |
//	      |       |      (a failed start, doubles    |     | a worker registers without the
//	      |       |       the throttle)              |     | invocation: unverified
//	      |       |                                  |     |
//	      |       | the worker stops, is deprecated, |     | accept: inserts the worker and consumes the
//	      |       | or its heartbeat grows too old   |     | invocation, one statement: accepted
//	      |     +-------------+                      |     |
//	      +---> |    ready    | <--------------------+-----+
//	            +-------------+   a worker's heartbeat returns: acknowledged
//
//	disabled and process are entered and left by whoever changes the registration; a current invocation is closed as
//	dismissed when next looked at, and is no failed start.
//
// One definition of these states, pgflow.handshake_states, serves the operations, the view worker_function_states and
// through it the operator.
//
// # Invariants, over the commits that the database keeps
//
//  1. At most one invocation is pending per registration.
//  2. One invocation admits at most one worker, ever: a unique index on workers.invocation_id, and the registration's row
//     lock held from the verdict to the insert.
//  3. No gap: every read between reservation and readiness shows the function pending or ready. Inserting the worker and
//     consuming the invocation are one statement with its triggers.
//  4. An expired, dismissed, superseded, unknown, used, null or foreign id admits nobody and changes nothing of the
//     current invocation.
//  5. Time is the database's clock, read in the first statement after the row lock was obtained. Times that lie more than
//     5 s ahead (the clock stepped back) count as long past.
//  6. A repeated call changes nothing more and reports the present state.
//  7. A reservation is made only for a registration that is enabled, started over HTTP, neither ready nor pending, and
//     past its throttle.
//  8. Safety needs no leader, no single operator and no cron. The statement that decides is begun after the lock is held;
//     outside READ COMMITTED the operations raise 25001.
//  9. Whatever is lost or crashes, a registration is startable again after the longer of pending_timeout +
//     heartbeat_timeout and its throttle.
//
// What is not promised: that a worker which is replaced because its heartbeat stalled does not resume beside its
// replacement.
//
// # Decisions where the contract is silent
//
//   - An id that is not the current one closes nothing, also for a disabled or process registration (invariant 4).
//   - An accepted invocation whose worker row was deleted is answered as one whose worker is gone.
//   - A refusal by "acknowledged" of a direct insert has that word as its DETAIL.
//   - A worker that registers without an invocation while none is current becomes last_worker_id and resets failed_starts.
//   - clear_throttle closes an expired invocation first; it counts as expired, then failed_starts is 0.
//   - A row inserted with an id and as already stopped uses the id up, and leaves the invocation to expire.
//   - Reasons are cut to 256 characters.
//   - "EXECUTE" in the caller's rights is on the five operations and on what they are made of: handshake_lock,
//     handshake_state, handshake_verdict and handshake_close. handshake_state alone runs as its owner, so that the one
//     definition of the state serves view and operations without a right on the view.
//
// # Migrations
//
// goose runs them: its session locker polls pg_try_advisory_lock, so that CREATE INDEX CONCURRENTLY does not deadlock
// with another operator that waits for the lock, as it does where the waiter sits in pg_advisory_lock (tern). What is
// ours carries a comment that begins with "pgflow-operator:"; installing refuses to touch what does not, uninstalling
// drops exactly what does.
//
// # The SQL path
//
// For databases where pg_cron and pg_net start functions, pgnet/ replaces pgflow.ensure_workers() in place (opt-in,
// [MigrateOptions].WithPgNet). It is reserve_invocation for every registration at once: a first look without locks, so
// that a call with nothing to do locks nothing; then the locks of what it found, in name order with SKIP LOCKED, so that
// it never waits for a registration; then the reading that decides, a statement begun with all of them held; then one
// statement that reserves and enqueues net.http_post with the id. pg_net sends what was committed, once. As before it
// returns a row for each function that it started, and none for others.
//
//   - The key is the vault's secret pgflow_auth_secret, else supabase_service_role_key; the functions URL is secret
//     pgflow_functions_url (ours: for a self-hosted Supabase, say http://kong:8000/functions/v1), else that of
//     supabase_project_id. A missing or unusable one is an error, SQLSTATE PF103, once there is something to start;
//     nothing is reserved then. cron.job_run_details shows it.
//   - Local mode is where pgflow.is_local() says so and pgflow_functions_url is not set: the Supabase CLI's gateway, without
//     a key. It changes nothing about who is due: a healthy worker is not called again at each tick, as pgflow does there.
//     Who wants a killed worker back sooner while developing lowers heartbeat_timeout.
//   - A name that cannot be one path segment is neither reserved nor sent.
//   - pg_net's own timeout stands: it sends in batches that wait for their slowest, so that a longer one would delay
//     everybody else's requests.
//   - Its rights are the caller's: who could call it before still can, but for PUBLIC, anon and authenticated. A role that
//     is granted EXECUTE later needs it on handshake_lock, handshake_close and handshake_path_segment too, and SELECT on
//     handshake_states.
//   - What was there is kept as handshake_kept_ensure_workers(), renamed: a stored definition would lose its owner and
//     privileges. Uninstalling renames it back. A migration of pgflow's that defines ensure_workers() again wins;
//     [CheckPgNet] tells, because our comment names the hash of our body. Its function then has the privileges that ours
//     had where it was replaced in place.
package pgstate
