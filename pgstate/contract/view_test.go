package contract_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestViewHasTheContractsColumns(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	NewWithT(t).Expect(d.text(t, `select string_agg(column_name || ' ' || data_type, ', ' order by ordinal_position)
		from information_schema.columns where table_schema = 'pgflow' and table_name = 'worker_function_states'`)).To(Equal(
		"function_name text, enabled boolean, start_mode text, handshake text, phase text, ready_worker_id uuid, verified boolean, " +
			"takes_part boolean, last_heartbeat_at timestamp with time zone, heartbeat_timeout interval, invocation_id uuid, " +
			"invocation_expires_at timestamp with time zone, retry_at timestamp with time zone, failed_starts integer, " +
			"last_invocation_id uuid, last_outcome text, last_outcome_reason text, last_outcome_at timestamp with time zone, last_worker_id uuid"))
	d.function(t, "")
	d.function(t, "")
	NewWithT(t).Expect(d.text(t, `select count(*)::text from pgflow.worker_function_states`)).To(Equal("2"), "a row per registration")
}

func TestOperationsHaveTheContractsColumns(t *testing.T) {
	t.Parallel()
	d := shared(t)
	for signature, want := range map[string]string{
		"reserve_invocation(text)":               "TABLE(decision text, invocation_id uuid, expires_at timestamp with time zone, retry_at timestamp with time zone, ready_worker_id uuid)",
		"receive_invocation(text,uuid,uuid)":     "TABLE(verdict text, reason text, ready_worker_id uuid, expires_at timestamp with time zone)",
		"accept_invocation(text,uuid,uuid,text)": "TABLE(verdict text, reason text, ready_worker_id uuid)",
	} {
		NewWithT(t).Expect(d.text(t, `with a as (select unnest(proallargtypes) as type, unnest(proargnames) as name, unnest(proargmodes) as mode
				from pg_proc where oid = ('pgflow.' || $1)::regprocedure)
			select 'TABLE(' || string_agg(name || ' ' || format_type(type, null), ', ') || ')' from a where mode in ('o', 't')`, signature)).To(Equal(want), signature)
	}
	f := d.function(t, "")
	for _, sql := range []string{`select dismissed from pgflow.dismiss_invocation($1, null, null)`, `select cleared from pgflow.clear_throttle($1)`} {
		var answer bool
		must(t, d.pool.QueryRow(t.Context(), sql, f.name).Scan(&answer))
	}
}

// process, disabled, ready, pending, retryable: in that precedence, found by adding one circumstance after the other.
func TestPhasePrecedence(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	g.Expect(f.state().phase).To(Equal("retryable"))
	w := stale(f)
	f.set(`last_invoked_at = null`)
	id := f.reserved()
	s := f.state()
	g.Expect([]any{s.phase, s.invocation, s.expires}).To(Equal([]any{"pending", id, f.row().expires}))
	f.beat(w)
	g.Expect(f.state().phase).To(Equal("ready"))
	f.set(`enabled = false`)
	g.Expect(f.state().phase).To(Equal("disabled"))
	f.set(`start_mode = 'process'`)
	g.Expect(f.state().phase).To(Equal("process"))
	f.set(`enabled = true`)
	g.Expect(f.state().phase).To(Equal("process"))
	f.set(`start_mode = 'http'`)
	f.stop(w)
	g.Expect(f.state().phase).To(Equal("pending"), "looking changes nothing")
	f.expire()
	g.Expect(f.state().phase).To(Equal("retryable"), "expired, not closed yet")
	f.set(`last_invoked_at = clock_timestamp()`)
	g.Expect(f.state().phase).To(Equal("retryable"), "though throttled")
}

// takes part: handshake is required, or the worker last admitted was verified. last_worker_id is that worker.
func TestTakesPart(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	expect := func(takesPart bool, lastWorker, why string) {
		t.Helper()
		s := f.state()
		g.Expect([]any{s.takesPart, s.lastWorker}).To(Equal([]any{takesPart, lastWorker}), why)
	}
	expect(false, "", "never started")
	f.set(`handshake = 'required'`)
	expect(true, "", "required")
	f.set(`handshake = 'permissive'`)
	legacy := f.worker()
	expect(false, legacy, "admitted without invocation")
	f.stop(legacy)
	_, verified := f.admitted()
	expect(true, verified, "admitted with one")
	f.stop(verified)
	expect(true, verified, "though it has stopped")
	f.due()
	f.dismiss(f.reserved(), "http_400")
	expect(true, verified, "a dismissal admits nobody")
	legacy = f.worker()
	expect(false, legacy, "the last one was not verified")
	f.stop(legacy)
	f.due()
	must(t, f.insert(verified2, f.reserved()))
	expect(true, verified2, "a direct insert with an invocation is verified")
	f.stale(verified2)
	f.due()
	id := f.reserved()
	f.beat(verified2)
	g.Expect(f.receive(id, "").verdict).To(Equal("acknowledged"))
	expect(true, verified2, "it acknowledged")
}

const verified2 = "12345678-0000-4000-8000-000000000001"

// An acknowledgement names the worker that acknowledges, which is the ready one.
func TestLastWorkerIsTheOneAcknowledging(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	first := f.worker()
	second := f.worker()
	g.Expect(f.state().lastWorker).To(Equal(second))
	f.stale(first)
	f.stale(second)
	id := f.reserved()
	f.beat(first)
	g.Expect(f.accept(id, newID())).To(Equal(answer{verdict: "acknowledged", ready: first}))
	g.Expect(f.row().ended()).To(Equal(row{lastID: id, outcome: "acknowledged", lastWorker: first}.ended()))
}

// Every step of one start, as a person with psql sees it.
func TestViewShowsTheHandshake(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, `heartbeat_timeout = interval '20 s'`)
	id, w := f.reserved(), newID()
	g.Expect(f.accept(id, w).verdict).To(Equal("accepted"))
	s := f.state()
	g.Expect(s).To(Equal(state{phase: "ready", startMode: "http", handshake: "permissive", ready: w, enabled: true, verified: true,
		takesPart: true, beat: f.workerRow(w).beat, retry: s.retry, lastID: id, outcome: "accepted", lastWorker: w}))
	f.stop(w)
	f.due()
	id = f.reserved()
	g.Expect(f.dismiss(id, "redirected")).To(BeTrue())
	s = f.state()
	g.Expect(s).To(Equal(state{phase: "retryable", startMode: "http", handshake: "permissive", enabled: true, takesPart: true,
		retry: s.retry, failed: 1, lastID: id, outcome: "dismissed", reason: "redirected", lastWorker: w}))
}
