package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// Two operators at once, without leader election, over many ends of workers: no harm but a query. Each invocation of a
// function that does not take part is sent once; where it does, the operator that did not reserve may send it as well.
func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	const functions, rounds = 20, 12
	w := newWorld(t, setting{})
	pair := []*operator{w.operator(), w.operator()}
	var all []*function
	for i := range functions {
		s := spec{}
		s.runtime = func(c *edgeruntime.FunctionConfig) {
			c.Boot = edgeruntime.Millis(time.Duration(20*i) * time.Millisecond)
			if i%2 == 1 {
				legacy(c)
			}
		}
		all = append(all, w.function(t, name("pair", i), s))
	}
	w.allReady(all...)
	for range rounds {
		before := map[*function]registration{}
		for _, f := range all {
			if rand.IntN(3) > 0 {
				before[f] = f.registration()
				f.stop()
			}
		}
		for f, row := range before {
			f.replaced(row.Ready)
		}
	}
	w.allReady(all...)
	for _, o := range pair {
		w.g.Expect(o.running()).To(BeTrue())
	}
	j := w.judge(t.Context())
	w.g.Expect(len(j.reserved)).To(BeNumerically(">", functions*rounds/2))
	times := map[string]int{}
	for _, r := range w.requests(t.Context(), "") {
		times[r.InvocationID]++
		w.g.Expect(times[r.InvocationID]).To(BeNumerically("<=", len(pair)), "%s: %s", r.Function, r.InvocationID)
	}
	w.g.Expect(times).To(HaveLen(len(j.reserved)), "each reservation was sent")
	t.Logf("%d requests for %d reservations", len(w.requests(t.Context(), "")), len(times))
}

// leading lets one operator lead, and another succeed it sooner than the defaults do.
var leading = []string{"--leader-elect", "--leader-elect-lease-duration=12s", "--leader-elect-renew-deadline=8s", "--leader-elect-retry-period=1s"}

// The leader is killed and the other operator takes over; then that one loses the API server, and with it the lead, and
// its successor takes over.
func TestLeadershipMovesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	leads := func(o *operator) func() []string {
		return func() []string { return o.lines("Successfully acquired lease") }
	}
	first := w.operator(leading...)
	w.eventually(leads(first)).Should(HaveLen(1))
	second := w.operator(leading...)
	f := w.function(t, "led", spec{})
	worker := f.ready()
	w.eventually(func() error { return second.probes("readyz") }).Should(Succeed())
	w.g.Expect(leads(second)()).To(BeEmpty())

	first.kill()
	f.stop()
	f.replaced(worker)
	w.g.Expect(leads(second)()).To(HaveLen(1))
	worker = f.ready()
	w.g.Expect(f.sent()).To(HaveLen(2))

	third := w.operator(leading...)
	second.api.freeze()
	// It ends when it could not renew its lease; until then it works on.
	f.stop()
	f.replaced(worker)
	second.wait(time.Now())
	w.g.Expect(second.code).NotTo(Equal(0))
	w.g.Expect(second.lines("leader election lost")).NotTo(BeEmpty())
	w.eventually(leads(third)).Should(HaveLen(1))
	worker = f.ready()
	f.stop()
	f.replaced(worker)
	f.ready()
	w.g.Expect(f.sent()).To(HaveLen(4))
	w.g.Expect(f.admitted()).To(Equal(4))
}

// name of the i-th of several functions.
func name(prefix string, i int) string {
	return prefix + "-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
}
