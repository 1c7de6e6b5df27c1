package contract_test

import (
	"fmt"
	"strings"
	"time"
)

// worker inserts a row as published workers do, without an invocation.
func (f function) worker() string {
	f.t.Helper()
	id := newID()
	must(f.t, f.insert(id, ""))
	return id
}

// insert inserts a worker row directly; "" inserts no invocation.
func (f function) insert(worker, invocation string) error {
	_, err := f.q.Exec(f.t.Context(), `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id)
		values ($1, $2, $3, $4)`, f.queue(), worker, f.name, orNull(invocation))
	return err
}

// admitted reserves and accepts: the invocation and its verified worker.
func (f function) admitted() (invocation, worker string) {
	f.t.Helper()
	f.due()
	invocation, worker = f.reserved(), newID()
	if a := f.accept(invocation, worker); a.verdict != "accepted" {
		f.t.Fatalf("accept_invocation answered %+v", a)
	}
	return invocation, worker
}

func (f function) change(worker, settings string) {
	f.t.Helper()
	tag, err := f.q.Exec(f.t.Context(), `update pgflow.workers set `+settings+` where worker_id = $1::text::uuid`, worker)
	must(f.t, err)
	if tag.RowsAffected() != 1 {
		f.t.Fatalf("no worker %s", worker)
	}
}

func (f function) stop(worker string) {
	f.t.Helper()
	f.change(worker, `stopped_at = clock_timestamp()`)
}
func (f function) deprecate(worker string) {
	f.t.Helper()
	f.change(worker, `deprecated_at = clock_timestamp()`)
}
func (f function) beat(worker string) {
	f.t.Helper()
	f.change(worker, `last_heartbeat_at = clock_timestamp()`)
}
func (f function) stale(worker string) {
	f.t.Helper()
	f.change(worker, `last_heartbeat_at = clock_timestamp() - interval '1 day'`)
}

// workerRow is a row of pgflow.workers.
type workerRow struct {
	queue, function, invocation string
	started, beat               time.Time
}

func (f function) workerRow(worker string) workerRow {
	f.t.Helper()
	var w workerRow
	var started, beat *time.Time
	must(f.t, f.q.QueryRow(f.t.Context(), `select queue_name, function_name, coalesce(invocation_id::text, ''), started_at, last_heartbeat_at
		from pgflow.workers where worker_id = $1::text::uuid`, worker).Scan(&w.queue, &w.function, &w.invocation, &started, &beat))
	w.started, w.beat = utc(started), utc(beat)
	return w
}

// workers counts the rows of the function.
func (f function) workers() int {
	f.t.Helper()
	var n int
	must(f.t, f.q.QueryRow(f.t.Context(), `select count(*) from pgflow.workers where function_name = $1`, f.name).Scan(&n))
	return n
}

// row is what the handshake stores in a registration.
type row struct {
	id                                  string
	expires                             time.Time
	failed                              int
	lastID, outcome, reason, lastWorker string
	outcomeAt, invoked                  time.Time
}

func (f function) row() row {
	f.t.Helper()
	var r row
	var expires, at, invoked *time.Time
	must(f.t, f.q.QueryRow(f.t.Context(), `select coalesce(invocation_id::text, ''), invocation_expires_at, failed_starts,
			coalesce(last_invocation_id::text, ''), coalesce(last_outcome, ''), coalesce(last_outcome_reason, ''),
			coalesce(last_worker_id::text, ''), last_outcome_at, last_invoked_at
		from pgflow.worker_functions where function_name = $1`, f.name).Scan(&r.id, &expires, &r.failed,
		&r.lastID, &r.outcome, &r.reason, &r.lastWorker, &at, &invoked))
	r.expires, r.outcomeAt, r.invoked = utc(expires), utc(at), utc(invoked)
	return r
}

// ended is how the last invocation ended: its id, outcome, reason, the worker, and the failed starts since.
func (r row) ended() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s worker=%s failed=%d", r.lastID, r.outcome, r.reason, r.lastWorker, r.failed))
}

// state is the view's row; a zero value for null.
type state struct {
	phase, startMode, handshake, ready, invocation string
	enabled, verified, takesPart                   bool
	beat, expires, retry                           time.Time
	failed                                         int
	lastID, outcome, reason, lastWorker            string
}

func (f function) state() state {
	f.t.Helper()
	var s state
	var beat, expires, retry *time.Time
	must(f.t, f.q.QueryRow(f.t.Context(), `select phase, start_mode, handshake, coalesce(ready_worker_id::text, ''),
			coalesce(invocation_id::text, ''), enabled, coalesce(verified, false), takes_part, last_heartbeat_at,
			invocation_expires_at, retry_at, failed_starts, coalesce(last_invocation_id::text, ''), coalesce(last_outcome, ''),
			coalesce(last_outcome_reason, ''), coalesce(last_worker_id::text, '')
		from pgflow.worker_function_states where function_name = $1`, f.name).Scan(&s.phase, &s.startMode, &s.handshake, &s.ready,
		&s.invocation, &s.enabled, &s.verified, &s.takesPart, &beat, &expires, &retry, &s.failed, &s.lastID, &s.outcome,
		&s.reason, &s.lastWorker))
	s.beat, s.expires, s.retry = utc(beat), utc(expires), utc(retry)
	return s
}

// content is everything stored about the function, for "nothing changed".
func (f function) content() string {
	f.t.Helper()
	return textOf(f.t, f.q, `select jsonb_pretty(jsonb_build_object(
		'registration', (select to_jsonb(f) - 'updated_at' from pgflow.worker_functions f where function_name = $1),
		'workers', (select jsonb_agg(to_jsonb(w) order by worker_id) from pgflow.workers w where function_name = $1)))`, f.name)
}

// unchanged expects that what is done leaves everything stored about the function as it was.
func (f function) unchanged(do func()) {
	f.t.Helper()
	before := f.content()
	do()
	if after := f.content(); after != before {
		f.t.Fatalf("changed from %s\nto %s", before, after)
	}
}
