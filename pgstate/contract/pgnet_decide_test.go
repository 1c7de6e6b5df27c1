package contract_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// situations are registrations in every state that reserve_invocation tells apart, made by hand.
var situations = map[string]func(f function){
	"new":                         func(function) {},
	"disabled":                    func(f function) { f.set(`enabled = false`) },
	"process":                     func(f function) { f.set(`start_mode = 'process'`) },
	"ready":                       func(f function) { f.worker() },
	"ready, verified":             func(f function) { f.admitted() },
	"pending":                     func(f function) { f.reserved() },
	"pending, required":           func(f function) { f.set(`handshake = 'required'`); f.reserved() },
	"throttled":                   func(f function) { f.dismiss(f.reserved(), "no") },
	"throttled, none before":      func(f function) { f.set(`last_invoked_at = clock_timestamp() - interval '2 s'`) },
	"due after a dismissal":       func(f function) { f.dismiss(f.reserved(), "no"); f.passes("13 s") },
	"auth rejected, throttled":    func(f function) { f.dismiss(f.reserved(), "auth_rejected"); f.passes("1 min") },
	"auth rejected, due":          func(f function) { f.dismiss(f.reserved(), "auth_rejected"); f.passes("301 s") },
	"expired, throttled":          func(f function) { f.reserved(); f.set(`failed_starts = 5`); f.passes("61 s") },
	"expired, due":                func(f function) { f.reserved(); f.passes("61 s") },
	"expired often, throttled":    func(f function) { f.set(`failed_starts = 60`); f.reserved(); f.passes("4 min") },
	"expired often, due":          func(f function) { f.set(`failed_starts = 60`); f.reserved(); f.passes("301 s") },
	"stopped":                     func(f function) { _, w := f.admitted(); f.stop(w); f.passes("7 s") },
	"deprecated":                  func(f function) { _, w := f.admitted(); f.deprecate(w); f.passes("7 s") },
	"stale":                       func(f function) { f.admitted(); f.passes("31 s") },
	"not yet stale":               func(f function) { f.admitted(); f.passes("25 s") },
	"stale by its own timeout":    func(f function) { f.set(`heartbeat_timeout = '10 s'`); f.admitted(); f.passes("11 s") },
	"pending, then disabled":      func(f function) { f.reserved(); f.set(`enabled = false`) },
	"pending, disabled and ready": func(f function) { f.revived(); f.set(`enabled = false`) },
	"pending, then process":       func(f function) { f.reserved(); f.set(`start_mode = 'process'`) },
	"expired, then disabled":      func(f function) { f.reserved(); f.passes("61 s"); f.set(`enabled = false`) },
	"pending, then ready again":   func(f function) { f.revived() },
	"invoked in the future":       func(f function) { f.reserved(); f.set(`last_invoked_at = clock_timestamp() + interval '1 h'`) },
	"beaten in the future": func(f function) {
		f.change(f.worker(), `last_heartbeat_at = clock_timestamp() + interval '1 h'`)
		f.due()
	},
	"long pending timeout":  func(f function) { f.set(`pending_timeout = '10 min'`) },
	"a debounce of an hour": func(f function) { f.set(`debounce = '1 h'`); f.reserved(); f.passes("30 min") },
}

// revived is pending with a healthy worker: one whose heartbeat returned, and that was not the last.
func (f function) revived() {
	f.t.Helper()
	_, first := f.admitted()
	f.worker()
	f.passes("31 s")
	f.reserved()
	f.beat(first)
}

// One call is reserve_invocation for every registration: it decides the same, closes the same and stores the same, and
// sends what is reserved.
func TestEnsureWorkersDecidesAsReserveDoes(t *testing.T) {
	t.Parallel()
	one, all := sqlPath(t), sqlPath(t)
	decisions := map[string]string{}
	for name, make := range situations {
		for _, d := range []*database{one, all} {
			make(d.named(t, name, ""))
		}
	}
	for name := range situations {
		decisions[name] = one.unregistered(t, name).reserve().decision
	}
	called := all.now(t)
	invoked := map[string]started{}
	for _, s := range ensure(t, all.pool) {
		invoked[s.Function] = s
	}
	seen := map[string]int{}
	for name, decision := range decisions {
		g := NewWithT(t)
		seen[decision]++
		want, f := one.unregistered(t, name), all.unregistered(t, name)
		g.Expect(summary(f)).To(Equal(summary(want)), name)
		g.Expect(f.state().phase).To(Equal(want.state().phase), name)
		ids := all.sent(t, projectURL+"/"+all.text(t, `select pgflow.handshake_path_segment($1)`, name))
		if decision != "reserved" {
			g.Expect(invoked).NotTo(HaveKey(name), decision)
			g.Expect(ids).To(BeEmpty(), name)
			continue
		}
		g.Expect(invoked).To(HaveKey(name), "of %s", name)
		g.Expect(invoked[name].Invoked).To(BeTrue())
		row := f.row()
		g.Expect(ids).To(Equal([]string{row.id}), name)
		g.Expect(row.invoked).To(BeTemporally(">=", called), name)
		g.Expect(row.expires.Sub(row.invoked)).To(Equal(want.row().expires.Sub(want.row().invoked)), name)
	}
	for _, decision := range []string{"disabled", "process", "ready", "pending", "throttled", "reserved"} {
		NewWithT(t).Expect(seen).To(HaveKey(decision), fmt.Sprint(seen))
	}
}

// summary is what is stored of a function, with ids and times reduced to whether they are there and recent.
func summary(f function) string {
	f.t.Helper()
	r := f.row()
	recent := func(at time.Time) string {
		switch age := f.d.now(f.t).Sub(at); {
		case at.IsZero():
			return "never"
		case age < -time.Minute:
			return "ahead"
		default:
			return age.Truncate(20 * time.Second).String()
		}
	}
	return fmt.Sprintf("id %t invoked %s; last %t %s %q at %s worker %t, the ready one %t, failed %d", r.id != "", recent(r.invoked),
		r.lastID != "", r.outcome, r.reason, recent(r.outcomeAt), r.lastWorker != "",
		r.lastWorker == f.state().ready, r.failed)
}
