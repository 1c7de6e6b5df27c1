package observer

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// Nothing is written when these deadlines pass, so nothing is notified, and nothing is swept.

// expectWakeAt expects one wake of f's user at the given time by the database's clock, which is also the test's.
func (w *world) expectWakeAt(at time.Time, woken int) {
	w.t.Helper()
	w.Eventually(func() int { return w.wakes.of(user("f")) }).Should(Equal(woken + 1))
	late := w.wakes.lastOf(user("f")).Sub(at)
	w.t.Logf("woken %v after the deadline", late)
	w.Expect(late).To(BeNumerically(">=", 0))
	w.Expect(late).To(BeNumerically("<", 500*time.Millisecond))
	w.Consistently(func() int { return w.wakes.of(user("f")) }).Should(Equal(woken + 1))
}

func TestExpiryWakes(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.exec(`INSERT INTO pgflow.worker_functions (function_name, pending_timeout, debounce) VALUES ('f', '1 s', '1 h')`)
	d := w.acquire("f")
	w.listens(d)
	r, err := d.Store().Reserve(w.t.Context(), "f")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(r.Decision).To(Equal(pgstate.DecisionReserved))
	w.Eventually(func() pgstate.Phase { return d.Lookup("f").State.Phase }).Should(Equal(pgstate.PhasePending))
	w.Eventually(func() int { return w.wakes.of(user("f")) }).Should(Equal(2))
	w.expectWakeAt(r.ExpiresAt, 2)
	w.Expect(d.Lookup("f").State.Phase).To(Equal(pgstate.PhaseRetryable))
}

func TestThrottleWakes(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.exec(`INSERT INTO pgflow.worker_functions (function_name, debounce, last_invoked_at)
		VALUES ('f', '1 s', clock_timestamp() + interval '1 s')`)
	d := w.acquire("f")
	woken := w.wakes.of(user("f"))
	retryAt := d.Lookup("f").State.RetryAt
	w.Expect(retryAt).To(BeTemporally(">", time.Now()))
	w.expectWakeAt(retryAt, woken)
}

func TestHeartbeatAgeWakes(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.exec(`INSERT INTO pgflow.worker_functions (function_name, heartbeat_timeout, debounce, last_invoked_at)
		VALUES ('f', '1 s', '1 h', clock_timestamp())`)
	w.start("f")
	d := w.acquire("f")
	w.Expect(d.Lookup("f").State.Phase).To(Equal(pgstate.PhaseReady))
	for range 8 {
		w.exec(`UPDATE pgflow.workers SET last_heartbeat_at = clock_timestamp()`)
		w.Consistently(func() int { return w.wakes.of(user("f")) }).Should(Equal(1))
	}
	var dead time.Time
	w.Expect(w.psql.QueryRow(w.t.Context(), `SELECT last_heartbeat_at + '1 s' FROM pgflow.workers`).Scan(&dead)).To(Succeed())
	w.expectWakeAt(dead, 1)
	w.Expect(d.Lookup("f").State.Phase).To(Equal(pgstate.PhaseRetryable))
}

func TestEndOfReplacingWakes(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.exec(`INSERT INTO pgflow.worker_functions (function_name, pending_timeout, debounce, last_invoked_at)
		VALUES ('f', '1 s', '1 h', clock_timestamp())`)
	worker := w.start("f")
	d := w.acquire("f")
	w.listens(d)
	w.exec(`SELECT pgflow.mark_worker_stopped($1)`, worker)
	w.Eventually(func() int { return w.wakes.of(user("f")) }).Should(Equal(2))
	w.expectWakeAt(d.Lookup("f").State.LastWorker.EndedAt.Add(time.Second), 2)
}

func TestDeadlinesAreOrdered(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var q deadlines
	start := time.Now()
	var entries []*entry
	for i := range 500 {
		e := &entry{name: strconv.Itoa(i), place: noPlace}
		entries = append(entries, e)
		q.set(e, start.Add(time.Duration(rand.IntN(1000))*time.Second))
	}
	for _, e := range entries[:250] {
		q.set(e, start.Add(time.Duration(rand.IntN(1000))*time.Second))
	}
	for _, e := range entries[200:300] {
		q.set(e, time.Time{})
	}
	entries = slices.Delete(entries, 200, 300)
	for _, limit := range []time.Duration{-1, 0, 100 * time.Second, 1000 * time.Second} {
		due := map[*entry]bool{}
		q.until(start.Add(limit), func(e *entry) { due[e] = true })
		earliest := time.Time{}
		for _, e := range entries {
			g.Expect(due[e]).To(Equal(!e.deadline.After(start.Add(limit))))
			if earliest.IsZero() || e.deadline.Before(earliest) {
				earliest = e.deadline
			}
		}
		g.Expect(q.next()).To(Equal(earliest))
	}
	for _, e := range entries {
		q.remove(e)
		q.remove(e)
	}
	g.Expect(q).To(BeEmpty())
	g.Expect(q.next()).To(BeZero())
}

func TestDatabaseClock(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	local := time.Now()
	base := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return local.Add(d) }

	var c databaseClock
	c.observe(base, local, after(100*time.Millisecond)) // slow: up to 100 ms behind
	g.Expect(c.at(after(time.Second))).To(Equal(base.Add(900 * time.Millisecond)))
	g.Expect(c.local(c.at(after(time.Minute)))).To(Equal(after(time.Minute)))

	// A quick reading is better, and a slow one after it changes nothing.
	c.observe(base.Add(time.Second), after(time.Second), after(1001*time.Millisecond))
	g.Expect(c.at(after(2 * time.Second))).To(Equal(base.Add(1999 * time.Millisecond)))
	c.observe(base.Add(2*time.Second), after(2*time.Second), after(2500*time.Millisecond))
	g.Expect(c.at(after(3 * time.Second))).To(Equal(base.Add(2999 * time.Millisecond)))

	// Set back by an hour, and forward again.
	c.observe(base.Add(3*time.Second-time.Hour), after(3*time.Second), after(3001*time.Millisecond))
	g.Expect(c.at(after(4 * time.Second))).To(Equal(base.Add(3999*time.Millisecond - time.Hour)))
	c.observe(base.Add(5*time.Second), after(5*time.Second), after(5001*time.Millisecond))
	g.Expect(c.at(after(6 * time.Second))).To(Equal(base.Add(5999 * time.Millisecond)))
}
