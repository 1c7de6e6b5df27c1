package contract_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Every decision of reserve_invocation: exactly the columns the contract names, its effect, and the same call again.
func TestReserveDecides(t *testing.T) {
	t.Parallel()
	d := shared(t)
	cases := []struct {
		name string
		// prepare returns a current invocation, if there is one, and the ready worker, if there is one.
		prepare          func(f function) (current, ready string)
		decision         string
		outcome, because string // how the current invocation is closed; "" leaves it
		failed           int
		again            string // the decision of the same call again, where it differs
	}{
		{name: "a fresh registration is reserved", decision: "reserved", again: "pending",
			prepare: func(f function) (string, string) { return "", "" }},
		{name: "process-managed", decision: "process",
			prepare: func(f function) (string, string) { f.set(`start_mode = 'process'`); return "", "" }},
		{name: "process-managed and disabled is process", decision: "process",
			prepare: func(f function) (string, string) { f.set(`start_mode = 'process', enabled = false`); return "", "" }},
		{name: "process-managed closes the current invocation", decision: "process", outcome: "dismissed", because: "process",
			prepare: func(f function) (string, string) { id := f.reserved(); f.set(`start_mode = 'process'`); return id, "" }},
		{name: "process-managed closes an expired one", decision: "process", outcome: "dismissed", because: "process",
			prepare: func(f function) (string, string) {
				id := f.reserved()
				f.expire()
				f.set(`start_mode = 'process'`)
				return id, ""
			}},
		{name: "disabled", decision: "disabled",
			prepare: func(f function) (string, string) { f.set(`enabled = false`); return "", "" }},
		{name: "disabled although a worker is healthy", decision: "disabled",
			prepare: func(f function) (string, string) { f.worker(); f.set(`enabled = false`); return "", "" }},
		{name: "disabled closes the current invocation", decision: "disabled", outcome: "dismissed", because: "disabled",
			prepare: func(f function) (string, string) { id := f.reserved(); f.set(`enabled = false`); return id, "" }},
		{name: "disabled is no failed start", decision: "disabled", outcome: "dismissed", because: "disabled", failed: 3,
			prepare: func(f function) (string, string) {
				id := f.reserved()
				f.set(`enabled = false, failed_starts = 3`)
				return id, ""
			}},
		{name: "ready", decision: "ready",
			prepare: func(f function) (string, string) { return "", f.worker() }},
		{name: "ready through a verified worker", decision: "ready",
			prepare: func(f function) (string, string) { _, w := f.admitted(); return "", w }},
		{name: "ready acknowledges the current invocation", decision: "ready", outcome: "acknowledged",
			prepare: func(f function) (string, string) {
				w := f.worker()
				f.stale(w)
				id := f.reserved()
				f.set(`failed_starts = 2`)
				f.beat(w)
				return id, w
			}},
		{name: "ready acknowledges an expired one", decision: "ready", outcome: "acknowledged",
			prepare: func(f function) (string, string) {
				w := f.worker()
				f.stale(w)
				id := f.reserved()
				f.expire()
				f.beat(w)
				return id, w
			}},
		{name: "pending", decision: "pending",
			prepare: func(f function) (string, string) { return f.reserved(), "" }},
		{name: "pending although the throttle has long passed", decision: "pending",
			prepare: func(f function) (string, string) {
				id := f.reserved()
				f.set(`last_invoked_at = clock_timestamp() - interval '1 hour'`)
				return id, ""
			}},
		{name: "throttled", decision: "throttled",
			prepare: func(f function) (string, string) { f.set(`last_invoked_at = clock_timestamp()`); return "", "" }},
		{name: "throttled closes an expired one", decision: "throttled", outcome: "expired", failed: 1,
			prepare: func(f function) (string, string) {
				f.set(`pending_timeout = interval '2 s'`)
				id := f.reserved()
				f.passes(`3 s`)
				return id, ""
			}},
		{name: "throttled adds to the failed starts", decision: "throttled", outcome: "expired", failed: 3,
			prepare: func(f function) (string, string) {
				f.set(`pending_timeout = interval '2 s'`)
				id := f.reserved()
				f.set(`failed_starts = 2`)
				f.passes(`3 s`)
				return id, ""
			}},
		{name: "reserved after an expired one", decision: "reserved", again: "pending", outcome: "expired", failed: 1,
			prepare: func(f function) (string, string) { id := f.reserved(); f.expire(); return id, "" }},
		{name: "reserved after a dismissed one", decision: "reserved", again: "pending", failed: 1,
			prepare: func(f function) (string, string) { f.dismiss(f.reserved(), "http_400"); f.passes(`1 h`); return "", "" }},
		{name: "reserved when the worker has stopped", decision: "reserved", again: "pending",
			prepare: func(f function) (string, string) { f.stop(f.worker()); return "", "" }},
		{name: "reserved when the worker is deprecated, though it beats", decision: "reserved", again: "pending",
			prepare: func(f function) (string, string) { w := f.worker(); f.deprecate(w); f.beat(w); return "", "" }},
		{name: "reserved when the worker is stale", decision: "reserved", again: "pending",
			prepare: func(f function) (string, string) { f.stale(f.worker()); return "", "" }},
		{name: "reserved though another function has a worker on the same queue", decision: "reserved", again: "pending",
			prepare: func(f function) (string, string) {
				other := f.d.function(f.t, "")
				w := other.worker()
				other.change(w, `queue_name = '`+f.queue()+`'`)
				return "", ""
			}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := d.function(t, "")
			current, ready := c.prepare(f)
			before, called := f.row(), d.now(t)
			r := f.reserve()
			after := f.row()

			want := reservation{decision: c.decision}
			switch c.decision {
			case "reserved":
				g.Expect(r.id).NotTo(BeElementOf("", before.id, before.lastID))
				g.Expect(after.invoked).To(And(BeTemporally(">=", called), BeTemporally("<=", d.now(t))))
				want.id, want.expires = r.id, r.expires
				g.Expect(after.expires.Sub(after.invoked)).To(Equal(time.Minute), "pending_timeout from the same reading")
				g.Expect([]any{after.id, after.expires}).To(Equal([]any{r.id, r.expires}))
			case "pending":
				want.id, want.expires = current, before.expires
			case "throttled":
				g.Expect(r.retry).To(BeTemporally(">", d.now(t)))
				want.retry = r.retry
			case "ready":
				want.ready = ready
			}
			g.Expect(r).To(Equal(want))
			switch {
			case c.outcome != "":
				worker := before.lastWorker
				if c.outcome == "acknowledged" {
					worker = ready
				}
				g.Expect(after.ended()).To(Equal(row{lastID: current, outcome: c.outcome, reason: c.because, lastWorker: worker, failed: c.failed}.ended()))
				g.Expect(after.outcomeAt).To(And(BeTemporally(">=", called.Add(-5*time.Second)), BeTemporally("<=", d.now(t))))
				if c.decision != "reserved" {
					g.Expect([]any{after.id, after.expires}).To(Equal([]any{"", time.Time{}}))
				}
			case c.decision != "reserved":
				g.Expect(after).To(Equal(before), "nothing is changed")
			default:
				g.Expect(after.ended()).To(Equal(before.ended()))
			}
			if c.decision != "reserved" {
				g.Expect(after.invoked).To(Equal(before.invoked), "only a reservation sets last_invoked_at")
			}

			f.unchanged(func() {
				again := f.reserve()
				if c.again != "" {
					want.decision = c.again
				}
				g.Expect(again).To(Equal(want), "the same call again")
			})
		})
	}
}

func TestReserveKnowsNoSuchRegistration(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	f := d.unregistered(t, "nobody")
	for range 2 {
		NewWithT(t).Expect(f.reserve()).To(Equal(reservation{decision: "unknown"}))
	}
	NewWithT(t).Expect(d.text(t, `select count(*)::text from pgflow.worker_functions`)).To(Equal("0"))
}

// Replicas are registrations of their own that read one queue: they never share a handshake.
func TestReplicasOnOneQueueNeverShareAHandshake(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	a, b := d.function(t, ""), d.function(t, "")
	forA, forB := a.reserved(), b.reserved()
	g.Expect(forA).NotTo(Equal(forB))
	b.unchanged(func() {
		g.Expect(b.receive(forA, "").reason).To(Equal("unknown"))
		g.Expect(b.accept(forA, newID())).To(Equal(answer{verdict: "rejected", reason: "unknown"}))
		g.Expect(b.dismiss(forA, "no")).To(BeFalse())
		refusedFor(t, b.insert(newID(), forA), "unknown")
		w := newID()
		_, err := a.q.Exec(t.Context(), `select from pgflow.accept_invocation($1, $2, $3, 'shared')`, a.name, forA, w)
		must(t, err)
		g.Expect(a.state().ready).To(Equal(w))
	})
	g.Expect(b.state().phase).To(Equal("pending"))
	w := newID()
	_, err := b.q.Exec(t.Context(), `select from pgflow.accept_invocation($1, $2, $3, 'shared')`, b.name, forB, w)
	must(t, err)
	g.Expect(b.state().ready).To(Equal(w))
	g.Expect(d.text(t, `select count(*)::text from pgflow.workers where queue_name = 'shared'`)).To(Equal("2"))
}

// The regression of the issue: an initialisation held beyond the debounce (6 s) but within the pending timeout (60 s),
// with repeated and concurrent calls, is one request.
func TestASlowBootIsRequestedOnce(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	decisions := make(chan string, 7*160)
	everybodyReserves := func() {
		done := make(chan error)
		for range 32 {
			go func() {
				for range 5 {
					r, err := f.tryReserve()
					if err != nil {
						done <- err
						return
					}
					decisions <- r.decision
				}
				done <- nil
			}()
		}
		for range 32 {
			must(t, <-done)
		}
	}
	everybodyReserves()
	for range 5 { // 0 s, 11 s, ... 55 s after the reservation
		f.passes(`11 s`)
		everybodyReserves()
	}
	id := f.row().id
	g.Expect(f.receive(id, "").verdict).To(Equal("start"))
	g.Expect(f.accept(id, newID()).verdict).To(Equal("accepted"))
	everybodyReserves()
	close(decisions)
	count := map[string]int{}
	for decision := range decisions {
		count[decision]++
	}
	g.Expect(count).To(Equal(map[string]int{"reserved": 1, "pending": 6*160 - 1, "ready": 160}))
	g.Expect(f.workers()).To(Equal(1))
}
