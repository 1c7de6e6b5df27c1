package contract_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// function is a registration as seen through one connection. Ids are text, "" is null; a zero time is null.
type function struct {
	t    testing.TB
	d    *database
	q    querier
	name string
}

// on is the same function through another connection or transaction.
func (f function) on(q querier) function { f.q = q; return f }

type reservation struct {
	decision, id   string
	expires, retry time.Time
	ready          string
}

type answer struct {
	verdict, reason, ready string
	expires                time.Time
}

const (
	reserveSQL = `select decision, coalesce(invocation_id::text, ''), expires_at, retry_at, coalesce(ready_worker_id::text, '')
		from pgflow.reserve_invocation($1)`
	receiveSQL = `select verdict, coalesce(reason, ''), coalesce(ready_worker_id::text, ''), expires_at
		from pgflow.receive_invocation($1, $2, $3)`
	acceptSQL = `select verdict, coalesce(reason, ''), coalesce(ready_worker_id::text, '')
		from pgflow.accept_invocation($1, $2, $3, $4)`
	dismissSQL = `select dismissed from pgflow.dismiss_invocation($1, $2, $3)`
	clearSQL   = `select cleared from pgflow.clear_throttle($1)`
)

// one runs a query that must return exactly one row.
func one[T any](t testing.TB, q querier, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) (T, error) {
	t.Helper()
	rows, err := q.Query(t.Context(), sql, args...)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

func (f function) tryReserve() (reservation, error) {
	return one(f.t, f.q, func(row pgx.CollectableRow) (r reservation, err error) {
		var expires, retry *time.Time
		err = row.Scan(&r.decision, &r.id, &expires, &retry, &r.ready)
		r.expires, r.retry = utc(expires), utc(retry)
		return r, err
	}, reserveSQL, f.name)
}

func (f function) reserve() reservation {
	f.t.Helper()
	r, err := f.tryReserve()
	must(f.t, err)
	return r
}

// reserved is the id of a reservation that must succeed.
func (f function) reserved() string {
	f.t.Helper()
	r := f.reserve()
	if r.decision != "reserved" {
		f.t.Fatalf("reserve_invocation decided %+v", r)
	}
	return r.id
}

func (f function) tryReceive(id, worker string) (answer, error) {
	return one(f.t, f.q, func(row pgx.CollectableRow) (a answer, err error) {
		var expires *time.Time
		err = row.Scan(&a.verdict, &a.reason, &a.ready, &expires)
		a.expires = utc(expires)
		return a, err
	}, receiveSQL, f.name, orNull(id), orNull(worker))
}

func (f function) receive(id, worker string) answer {
	f.t.Helper()
	a, err := f.tryReceive(id, worker)
	must(f.t, err)
	return a
}

func (f function) tryAccept(id, worker string) (answer, error) {
	return one(f.t, f.q, func(row pgx.CollectableRow) (a answer, err error) {
		err = row.Scan(&a.verdict, &a.reason, &a.ready)
		return a, err
	}, acceptSQL, f.name, orNull(id), orNull(worker), f.queue())
}

func (f function) accept(id, worker string) answer {
	f.t.Helper()
	a, err := f.tryAccept(id, worker)
	must(f.t, err)
	return a
}

func (f function) tryDismiss(id, reason string) (bool, error) {
	return one(f.t, f.q, pgx.RowTo[bool], dismissSQL, f.name, orNull(id), reason)
}

func (f function) dismiss(id, reason string) bool {
	f.t.Helper()
	ok, err := f.tryDismiss(id, reason)
	must(f.t, err)
	return ok
}

func (f function) tryClear() (bool, error) {
	return one(f.t, f.q, pgx.RowTo[bool], clearSQL, f.name)
}

func (f function) clear() bool {
	f.t.Helper()
	ok, err := f.tryClear()
	must(f.t, err)
	return ok
}

func (f function) queue() string { return f.name + "-queue" }

// set changes the registration by hand.
func (f function) set(settings string) {
	f.t.Helper()
	tag, err := f.q.Exec(f.t.Context(), `update pgflow.worker_functions set `+settings+` where function_name = $1`, f.name)
	must(f.t, err)
	if tag.RowsAffected() != 1 {
		f.t.Fatalf("no registration %q", f.name)
	}
}

// passes lets an interval pass: every stored time of the function and its workers moves into the past.
func (f function) passes(interval string) {
	f.t.Helper()
	_, err := f.q.Exec(f.t.Context(), `update pgflow.worker_functions set
			last_invoked_at = last_invoked_at - $2::text::interval,
			invocation_expires_at = invocation_expires_at - $2::text::interval,
			last_outcome_at = last_outcome_at - $2::text::interval
		where function_name = $1`, f.name, interval)
	must(f.t, err)
	_, err = f.q.Exec(f.t.Context(), `update pgflow.workers set
			started_at = started_at - $2::text::interval, last_heartbeat_at = last_heartbeat_at - $2::text::interval,
			stopped_at = stopped_at - $2::text::interval, deprecated_at = deprecated_at - $2::text::interval
		where function_name = $1`, f.name, interval)
	must(f.t, err)
}

// expire lets the current invocation expire and the throttle pass, with nobody there to close it.
func (f function) expire() {
	f.t.Helper()
	f.set(`last_invoked_at = clock_timestamp() - interval '1 hour', invocation_expires_at = clock_timestamp() - interval '1 ms'`)
}

// due makes the next attempt due without touching anything else.
func (f function) due() {
	f.t.Helper()
	f.set(`last_invoked_at = clock_timestamp() - interval '1 day'`)
}

// orNull is an id as an argument: null when it is "".
func orNull(id string) any {
	if id == "" {
		return nil
	}
	return id
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
