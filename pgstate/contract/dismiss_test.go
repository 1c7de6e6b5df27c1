package contract_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestDismissIsTrueOnceAndOnlyForTheCurrentUnexpiredInvocation(t *testing.T) {
	t.Parallel()
	d := shared(t)
	cases := []struct {
		name    string
		prepare func(f function) (id string)
		want    bool
	}{
		{"current", func(f function) string { return f.reserved() }, true},
		{"current, after two failed starts", func(f function) string { f.set(`failed_starts = 2`); return f.reserved() }, true},
		{"current, received", func(f function) string { id := f.reserved(); f.receive(id, ""); return id }, true},
		{"current but expired", func(f function) string { id := f.reserved(); f.expire(); return id }, false},
		{"reserved before the clock stepped back", func(f function) string { id := f.reserved(); f.passes(`-10 s`); return id }, false},
		{"null", func(f function) string { f.reserved(); return "" }, false},
		{"null, and none is current", func(function) string { return "" }, false},
		{"never issued", func(f function) string { f.reserved(); return newID() }, false},
		{"of another function", func(f function) string { f.reserved(); return f.d.function(f.t, "").reserved() }, false},
		{"accepted", func(f function) string { id, _ := f.admitted(); return id }, false},
		{"superseded", func(f function) string { id := f.reserved(); f.worker(); return id }, false},
		{"expired, the next is pending", func(f function) string { id := f.reserved(); f.expire(); f.reserved(); return id }, false},
		{"dismissed, the next is pending", func(f function) string {
			id := f.reserved()
			f.dismiss(id, "http_400")
			f.due()
			f.reserved()
			return id
		}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := d.function(t, "")
			id := c.prepare(f)
			before, content, called := f.row(), f.content(), d.now(t)
			g.Expect(f.dismiss(id, "http_418")).To(Equal(c.want))
			after := f.row()
			if c.want {
				g.Expect(after).To(Equal(row{lastID: id, outcome: "dismissed", reason: "http_418", lastWorker: before.lastWorker,
					failed: before.failed + 1, outcomeAt: after.outcomeAt, invoked: before.invoked}))
				g.Expect(after.outcomeAt).To(And(BeTemporally(">=", called), BeTemporally("<=", d.now(t))))
			} else {
				g.Expect(f.content()).To(Equal(content))
			}
			f.unchanged(func() { g.Expect(f.dismiss(id, "again")).To(BeFalse()) })
		})
	}
}

// failed_starts counts what was dismissed or expired in a row.
func TestFailedStartsCountInARow(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	fail := func(want int) {
		t.Helper()
		f.due()
		f.dismiss(f.reserved(), "http_400")
		f.due()
		f.reserved()
		f.expire()
		f.due()
		f.dismiss(f.reserved(), "http_400") // closes the expired one first
		g.Expect([]int{f.row().failed, f.state().failed}).To(Equal([]int{want, want}))
	}
	stop := func() { f.change(f.state().ready, `stopped_at = now()`) }

	fail(3)
	fail(6)
	f.due()
	g.Expect(f.accept(f.reserved(), newID()).verdict).To(Equal("accepted"))
	g.Expect(f.row().failed).To(BeZero(), "a worker was admitted")
	stop()

	fail(3)
	f.due()
	must(t, f.insert(newID(), f.reserved()))
	g.Expect(f.row().failed).To(BeZero(), "a worker was admitted by a direct insert")
	stop()

	fail(3)
	f.worker()
	g.Expect(f.row().failed).To(BeZero(), "a worker without invocation was admitted")
	w := f.state().ready
	f.stale(w)

	for name, acknowledges := range map[string]func(id string){
		"reserve": func(string) { f.reserve() },
		"receive": func(id string) { f.receive(id, "") },
		"accept":  func(id string) { f.accept(id, newID()) },
		"receive naming the worker that was too busy to beat": func(id string) { f.stale(w); f.receive(id, w) },
	} {
		fail(3)
		f.due()
		id := f.reserved()
		f.beat(w)
		acknowledges(id)
		g.Expect(f.row().ended()).To(Equal(row{lastID: id, outcome: "acknowledged", lastWorker: w}.ended()), name)
		f.stale(w)
	}

	fail(3)
	f.due()
	f.reserved()
	f.set(`enabled = false`)
	f.reserve()
	g.Expect(f.row().failed).To(Equal(3), "disabled is no failed start")
}

func TestClearThrottleMakesTheNextAttemptDue(t *testing.T) {
	t.Parallel()
	d := shared(t)
	cases := []struct {
		name    string
		prepare func(f function)
	}{
		{"just tried", func(f function) { f.set(`last_invoked_at = clock_timestamp()`) }},
		{"never tried", func(function) {}},
		{"dismissed", func(f function) { f.dismiss(f.reserved(), "http_400") }},
		{"dismissed auth_rejected", func(f function) { f.dismiss(f.reserved(), "auth_rejected") }},
		{"dismissed route_not_found", func(f function) { f.dismiss(f.reserved(), "route_not_found") }},
		{"six failed starts", func(f function) { f.set(`failed_starts = 6, last_invoked_at = clock_timestamp()`) }},
		{"expired but not closed", func(f function) { f.set(`pending_timeout = interval '2 s'`); f.reserved(); f.passes(`3 s`) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := d.function(t, "")
			c.prepare(f)
			g.Expect(f.clear()).To(BeTrue())
			g.Expect(f.row().failed).To(BeZero())
			f.unchanged(func() { g.Expect(f.clear()).To(BeTrue(), "the same call again") })
			s := f.state()
			g.Expect([]any{s.phase, s.failed}).To(Equal([]any{"retryable", 0}))
			g.Expect(s.retry).To(BeTemporally("<=", d.now(t)))
			id := f.reserved()
			f.unchanged(func() { g.Expect(f.clear()).To(BeFalse(), "nothing is done while one is pending") })
			f.dismiss(id, "auth_rejected")
			g.Expect(f.reserve().decision).To(Equal("throttled"), "it cleared what was, not what comes")
		})
	}
	t.Run("pending", func(t *testing.T) {
		f := d.function(t, `failed_starts = 3`)
		f.reserved()
		f.unchanged(func() { NewWithT(t).Expect(f.clear()).To(BeFalse()) })
	})
	t.Run("no registration", func(t *testing.T) {
		NewWithT(t).Expect(d.unregistered(t, "nobody").clear()).To(BeFalse())
	})
}

// Naming its own worker row counts as that worker's heartbeat, before health is judged.
func TestReceiveCountsAsHeartbeatOfTheWorkerNamed(t *testing.T) {
	t.Parallel()
	d := shared(t)
	cases := []struct {
		name    string
		prepare func(f function) (worker string)
		beats   bool
	}{
		{"stale", stale, true},
		{"healthy", func(f function) string {
			w := f.worker()
			f.change(w, `last_heartbeat_at = clock_timestamp() - interval '20 s'`)
			return w
		}, true},
		{"from before the clock stepped back", func(f function) string {
			w := f.worker()
			f.change(w, `last_heartbeat_at = clock_timestamp() + interval '1 h'`)
			return w
		}, true},
		{"stopped", func(f function) string { w := stale(f); f.stop(w); return w }, false},
		{"deprecated", func(f function) string { w := stale(f); f.deprecate(w); return w }, false},
		{"of another function", func(f function) string { return stale(f.d.function(f.t, "")) }, false},
		{"not registered", func(f function) string { return newID() }, false},
		{"null", func(f function) string { return "" }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := d.function(t, "")
			w := c.prepare(f)
			f.due()
			// Reserved behind the back of a worker that may be healthy, as when it was too busy to beat.
			id := newID()
			f.set(`invocation_id = '` + id + `', invocation_expires_at = clock_timestamp() + interval '1 min', last_invoked_at = clock_timestamp()`)
			if !c.beats {
				f.unchanged(func() { g.Expect(f.receive(id, w).verdict).To(Equal("start")) })
				if rows := d.text(t, `select count(*)::text from pgflow.workers where worker_id = nullif($1, '')::uuid
					and last_heartbeat_at > clock_timestamp() - interval '1 hour'`, w); rows != "0" {
					t.Error("its heartbeat moved")
				}
				return
			}
			called := d.now(t)
			g.Expect(f.receive(id, w)).To(Equal(answer{verdict: "acknowledged", ready: w}))
			g.Expect(f.workerRow(w).beat).To(And(BeTemporally(">=", called), BeTemporally("<=", d.now(t))))
			g.Expect(f.state().ready).To(Equal(w))
			g.Expect(f.receive(id, w)).To(Equal(answer{verdict: "acknowledged", ready: w}), "the same call again")
		})
	}
}

// A heartbeat by receive is one for any id on an authenticated request, not only for the current one.
func TestReceiveCountsAsHeartbeatWhateverTheID(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	w := stale(f)
	g.Expect(f.receive(newID(), w).reason).To(Equal("unknown"))
	g.Expect(f.workerRow(w).beat).To(BeTemporally("~", d.now(t), 10*time.Second))
}
