package contract_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A case of the verdict table: what is delivered, and what receive and accept say to it.
type verdictCase struct {
	name string
	// prepare returns what is delivered, and the worker that asks ("" for a new one).
	prepare         func(f function) (id, worker string)
	receive, accept string // verdict and reason
	closed          string // how both close the current invocation; "" when they leave it
}

func stale(f function) string {
	w := f.worker()
	f.stale(w)
	return w
}

var verdictCases = []verdictCase{
	{name: "null id", receive: "rejected unknown", accept: "rejected unknown",
		prepare: func(f function) (string, string) { f.reserved(); return "", "" }},
	{name: "admitted a worker that is healthy, another asks", receive: "acknowledged", accept: "acknowledged",
		prepare: func(f function) (string, string) { id, _ := f.admitted(); return id, "" }},
	{name: "admitted a worker that is healthy, and it asks", receive: "acknowledged", accept: "accepted",
		prepare: func(f function) (string, string) { return f.admitted() }},
	{name: "admitted a worker that stopped, another is healthy", receive: "acknowledged", accept: "acknowledged",
		prepare: func(f function) (string, string) { id, w := f.admitted(); f.stop(w); f.worker(); return id, w }},
	{name: "admitted a worker that is deprecated, another is healthy", receive: "acknowledged", accept: "acknowledged",
		prepare: func(f function) (string, string) { id, w := f.admitted(); f.deprecate(w); f.worker(); return id, "" }},
	{name: "admitted a worker that is stale, another is healthy", receive: "acknowledged", accept: "acknowledged",
		prepare: func(f function) (string, string) { id, w := f.admitted(); f.stale(w); f.admitted(); return id, w }},
	{name: "admitted a worker that stopped", receive: "rejected taken", accept: "rejected taken",
		prepare: func(f function) (string, string) { id, w := f.admitted(); f.stop(w); return id, "" }},
	{name: "admitted a worker that stopped, and it asks", receive: "rejected taken", accept: "rejected taken",
		prepare: func(f function) (string, string) { id, w := f.admitted(); f.stop(w); return id, w }},
	{name: "admitted a worker that is deprecated, and it asks", receive: "rejected taken", accept: "rejected taken",
		prepare: func(f function) (string, string) { id, w := f.admitted(); f.deprecate(w); return id, w }},
	{name: "admitted a worker that is stale", receive: "rejected taken", accept: "rejected taken",
		prepare: func(f function) (string, string) { id, w := f.admitted(); f.stale(w); return id, "" }},
	{name: "admitted a worker that is gone, the next is pending", receive: "rejected taken", accept: "rejected taken",
		prepare: func(f function) (string, string) {
			id, w := f.admitted()
			f.stop(w)
			f.due()
			f.reserved()
			return id, ""
		}},
	{name: "admitted a worker before the last", receive: "rejected taken", accept: "rejected taken",
		prepare: func(f function) (string, string) {
			id, w := f.admitted()
			f.stop(w)
			_, w = f.admitted()
			f.stop(w)
			return id, ""
		}},
	{name: "admitted a healthy worker of a disabled function", receive: "acknowledged", accept: "accepted",
		prepare: func(f function) (string, string) { id, w := f.admitted(); f.set(`enabled = false`); return id, w }},
	{name: "admitted a healthy worker of a function now process-managed", receive: "acknowledged", accept: "accepted",
		prepare: func(f function) (string, string) {
			id, w := f.admitted()
			f.set(`start_mode = 'process'`)
			return id, w
		}},
	{name: "current, process", receive: "rejected process", accept: "rejected process", closed: "dismissed process",
		prepare: func(f function) (string, string) { id := f.reserved(); f.set(`start_mode = 'process'`); return id, "" }},
	{name: "current, disabled", receive: "rejected disabled", accept: "rejected disabled", closed: "dismissed disabled",
		prepare: func(f function) (string, string) { id := f.reserved(); f.set(`enabled = false`); return id, "" }},
	{name: "current, disabled and process", receive: "rejected process", accept: "rejected process", closed: "dismissed process",
		prepare: func(f function) (string, string) {
			id := f.reserved()
			f.set(`enabled = false, start_mode = 'process'`)
			return id, ""
		}},
	{name: "current, disabled, though a worker is healthy", receive: "rejected disabled", accept: "rejected disabled", closed: "dismissed disabled",
		prepare: func(f function) (string, string) {
			w := stale(f)
			id := f.reserved()
			f.beat(w)
			f.set(`enabled = false`)
			return id, ""
		}},
	{name: "never issued, disabled", receive: "rejected disabled", accept: "rejected disabled",
		prepare: func(f function) (string, string) { f.set(`enabled = false`); return newID(), "" }},
	{name: "dismissed", receive: "rejected dismissed", accept: "rejected dismissed",
		prepare: func(f function) (string, string) { id := f.reserved(); f.dismiss(id, "http_400"); return id, "" }},
	{name: "dismissed, though a worker is healthy", receive: "rejected dismissed", accept: "rejected dismissed",
		prepare: func(f function) (string, string) {
			id := f.reserved()
			f.dismiss(id, "http_400")
			f.worker()
			return id, ""
		}},
	{name: "dismissed, the next is pending", receive: "rejected dismissed", accept: "rejected dismissed",
		prepare: func(f function) (string, string) {
			id := f.reserved()
			f.dismiss(id, "http_400")
			f.due()
			f.reserved()
			return id, ""
		}},
	{name: "expired and closed", receive: "rejected expired", accept: "rejected expired",
		prepare: func(f function) (string, string) { id := f.reserved(); f.expire(); f.reserved(); return id, "" }},
	{name: "superseded by a worker without invocation", receive: "rejected superseded", accept: "rejected superseded",
		prepare: func(f function) (string, string) { id := f.reserved(); f.worker(); return id, "" }},
	{name: "superseded, and that worker is gone", receive: "rejected superseded", accept: "rejected superseded",
		prepare: func(f function) (string, string) { id := f.reserved(); f.stop(f.worker()); return id, "" }},
	{name: "closed as acknowledged, a worker is healthy", receive: "acknowledged", accept: "acknowledged",
		prepare: func(f function) (string, string) {
			w := stale(f)
			id := f.reserved()
			f.beat(w)
			f.reserve()
			return id, ""
		}},
	{name: "closed as acknowledged, none is healthy", receive: "rejected taken", accept: "rejected taken",
		prepare: func(f function) (string, string) {
			w := stale(f)
			id := f.reserved()
			f.beat(w)
			f.reserve()
			f.stop(w)
			return id, ""
		}},
	{name: "never issued", receive: "rejected unknown", accept: "rejected unknown",
		prepare: func(f function) (string, string) { return newID(), "" }},
	{name: "never issued, one is pending", receive: "rejected unknown", accept: "rejected unknown",
		prepare: func(f function) (string, string) { f.reserved(); return newID(), "" }},
	{name: "never issued, a worker is healthy", receive: "rejected unknown", accept: "rejected unknown",
		prepare: func(f function) (string, string) { f.admitted(); return newID(), "" }},
	{name: "older than the last", receive: "rejected unknown", accept: "rejected unknown",
		prepare: func(f function) (string, string) {
			id := f.reserved()
			f.dismiss(id, "http_400")
			f.due()
			f.dismiss(f.reserved(), "http_400")
			f.due()
			f.reserved()
			return id, ""
		}},
	{name: "pending for another function", receive: "rejected unknown", accept: "rejected unknown",
		prepare: func(f function) (string, string) { f.reserved(); return f.d.function(f.t, "").reserved(), "" }},
	{name: "admitted a healthy worker of another function", receive: "rejected unknown", accept: "rejected unknown",
		prepare: func(f function) (string, string) { f.reserved(); return f.d.function(f.t, "").admitted() }},
	{name: "current but expired", receive: "rejected expired", accept: "rejected expired",
		prepare: func(f function) (string, string) { id := f.reserved(); f.expire(); return id, "" }},
	{name: "current but expired, though a worker is healthy", receive: "rejected expired", accept: "rejected expired",
		prepare: func(f function) (string, string) {
			w := stale(f)
			id := f.reserved()
			f.expire()
			f.beat(w)
			return id, ""
		}},
	{name: "current, reserved before the clock stepped back", receive: "rejected expired", accept: "rejected expired",
		prepare: func(f function) (string, string) { id := f.reserved(); f.passes(`-10 s`); return id, "" }},
	{name: "current, reserved when the clock was 4 s ahead", receive: "start", accept: "accepted",
		prepare: func(f function) (string, string) { id := f.reserved(); f.passes(`-4 s`); return id, "" }},
	{name: "current, a worker is healthy", receive: "acknowledged", accept: "acknowledged", closed: "acknowledged",
		prepare: func(f function) (string, string) {
			w := stale(f)
			id := f.reserved()
			f.beat(w)
			return id, ""
		}},
	{name: "current, the worker id is a stopped one of this function", receive: "start", accept: "rejected worker_used",
		prepare: func(f function) (string, string) { w := f.worker(); f.stop(w); return f.reserved(), w }},
	{name: "current, the worker id is a healthy one of another function", receive: "start", accept: "rejected worker_used",
		prepare: func(f function) (string, string) { return f.reserved(), f.d.function(f.t, "").worker() }},
	{name: "current, failed starts before", receive: "start", accept: "accepted",
		prepare: func(f function) (string, string) { f.set(`failed_starts = 4`); return f.reserved(), "" }},
	{name: "current, handshake required", receive: "start", accept: "accepted",
		prepare: func(f function) (string, string) { f.set(`handshake = 'required'`); return f.reserved(), "" }},
	{name: "current", receive: "start", accept: "accepted",
		prepare: func(f function) (string, string) { return f.reserved(), "" }},
}

func TestReceiveAndAcceptAnswer(t *testing.T) {
	t.Parallel()
	d := shared(t)
	for _, c := range verdictCases {
		for _, operation := range []string{"receive", "accept"} {
			t.Run(operation+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				checkVerdict(t, d.function(t, ""), c, operation)
			})
		}
	}
}

func checkVerdict(t *testing.T, f function, c verdictCase, operation string) {
	g := NewWithT(t)
	id, worker := c.prepare(f)
	asking := worker
	if asking == "" {
		asking = newID()
	}
	want := c.accept
	call := func() answer { return f.accept(id, asking) }
	if operation == "receive" {
		want = c.receive
		call = func() answer { return f.receive(id, "") }
	}
	before, content, called, rows := f.row(), f.content(), f.d.now(t), f.workers()
	a := call()
	after := f.row()
	said := a.verdict
	if a.reason != "" {
		said += " " + a.reason
	}
	g.Expect(said).To(Equal(want))
	switch {
	case want == "start":
		g.Expect(a.expires).To(Equal(before.expires))
		g.Expect(f.content()).To(Equal(content), "receiving a request changes nothing")
	case want == "accepted" && before.id == id:
		g.Expect(a.ready).To(Equal(asking))
		g.Expect(after).To(Equal(row{lastID: id, outcome: "accepted", lastWorker: asking, outcomeAt: after.outcomeAt, invoked: before.invoked}))
		w := f.workerRow(asking)
		g.Expect(w).To(Equal(workerRow{queue: f.queue(), function: f.name, invocation: id, started: w.started, beat: w.started}))
		g.Expect(w.started).To(And(BeTemporally(">=", called), BeTemporally("<=", f.d.now(t))))
		g.Expect(after.outcomeAt).To(Equal(w.started), "one reading of the clock")
		g.Expect(f.workers()).To(Equal(rows + 1))
	case c.closed != "":
		closing := after.outcome
		if after.reason != "" {
			closing += " " + after.reason
		}
		g.Expect(closing).To(Equal(c.closed))
		g.Expect([]any{after.id, after.expires, after.lastID}).To(Equal([]any{"", time.Time{}, id}))
		if after.outcome == "acknowledged" {
			g.Expect([]any{after.failed, after.lastWorker}).To(Equal([]any{0, a.ready}))
		} else {
			g.Expect([]any{after.failed, after.lastWorker}).To(Equal([]any{before.failed, before.lastWorker}))
		}
	default:
		g.Expect(f.content()).To(Equal(content), "nothing is changed")
	}
	if a.verdict == "acknowledged" || a.verdict == "accepted" {
		var healthy string
		if healthy = f.state().ready; healthy == "" { // disabled or process: the view need not name it
			healthy = a.ready
		}
		g.Expect(a.ready).To(And(Not(BeEmpty()), Equal(healthy)))
	}
	f.unchanged(func() {
		again := call()
		g.Expect(again).To(Equal(a), "the same call again")
	})
}

func TestReceiveAndAcceptKnowNoSuchRegistration(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f, other := d.unregistered(t, "nobody"), d.function(t, "")
	current := other.reserved()
	for _, id := range []string{"", newID(), current, current} {
		g.Expect(f.receive(id, "")).To(Equal(answer{verdict: "rejected", reason: "unknown"}))
		g.Expect(f.accept(id, newID())).To(Equal(answer{verdict: "rejected", reason: "unknown"}))
		g.Expect(f.dismiss(id, "no")).To(BeFalse())
	}
	g.Expect(f.workers()).To(BeZero())
	g.Expect(other.row().id).To(Equal(current))
}

// What one runtime accepted, every other is told; a lost answer is had by asking again.
func TestOneInvocationAdmitsOneWorker(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	id, first, second := f.reserved(), newID(), newID()
	for range 3 { // delivered to any number of runtimes
		g.Expect(f.receive(id, "").verdict).To(Equal("start"))
	}
	for range 2 {
		g.Expect(f.accept(id, first)).To(Equal(answer{verdict: "accepted", ready: first}))
		g.Expect(f.accept(id, second)).To(Equal(answer{verdict: "acknowledged", ready: first}))
		refusedFor(t, f.insert(second, id), "acknowledged")
	}
	f.stop(first)
	for range 2 {
		g.Expect(f.accept(id, first)).To(Equal(answer{verdict: "rejected", reason: "taken"}))
		g.Expect(f.accept(id, second)).To(Equal(answer{verdict: "rejected", reason: "taken"}))
		refusedFor(t, f.insert(second, id), "taken")
	}
	// The refused runtime, neither killed nor redeployed, serves a later id.
	f.due()
	later := f.reserved()
	g.Expect(f.receive(later, "").verdict).To(Equal("start"))
	g.Expect(f.accept(later, second)).To(Equal(answer{verdict: "accepted", ready: second}))
	g.Expect(f.workers()).To(Equal(2))
}
