package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/postgres"
)

// The database is restarted in mid-start, and later crashes and stays away for more than 30 s.
func TestDatabaseRestarts(t *testing.T) {
	t.Parallel()
	cluster, err := postgres.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := newWorld(t, setting{cluster: cluster})
	o := w.operator()
	hold := func(c *edgeruntime.FunctionConfig) { c.Hold = edgeruntime.HoldInit }
	part := w.function(t, "participating", spec{heartbeat: 5 * time.Minute, runtime: hold})
	old := w.function(t, "legacy", spec{pendingTimeout: 10 * time.Second, heartbeat: 5 * time.Minute, runtime: func(c *edgeruntime.FunctionConfig) { legacy(c); hold(c) }})
	killed := w.function(t, "killed", spec{heartbeat: 5 * time.Second})
	alive := w.function(t, "alive", spec{heartbeat: 5 * time.Second})
	all := []*function{part, old, killed, alive}
	for _, f := range []*function{part, old} {
		f.arrived(f.pending().Invocation)
		f.eventually(func() int { return f.state().Held }).Should(Equal(1))
	}
	w.g.Expect(cluster.Restart(t.Context())).To(Succeed())
	w.pool.Reset()
	part.release()
	old.release()
	w.allReady(all...)
	w.g.Expect(part.sent()).To(HaveLen(1))
	// A published worker whose one INSERT meets a cut connection fails, and is started anew when the invocation has expired.
	starts := len(old.sent())
	w.g.Expect(starts).To(BeNumerically("<=", 2))
	for _, f := range []*function{part, old} {
		w.g.Expect(f.admitted()).To(Equal(1))
	}

	living, before := alive.registration().Ready, killed.registration().Ready
	w.g.Expect(cluster.CrashServer()).To(Succeed())
	killed.killRuntimes()
	for _, f := range all {
		f.eventually(func() string { return f.condition("Ready") }).Should(Equal("Unknown DatabaseUnavailable"))
		w.g.Expect(f.condition("Reconciling")).To(Equal("True DatabaseUnavailable"))
	}
	w.g.Expect(o.probes("readyz")).To(Succeed())
	w.g.Expect(cluster.StartServer(t.Context())).To(Succeed())
	w.pool.Reset()
	killed.replaced(before)
	w.allReady(all...)
	w.g.Expect(o.running()).To(BeTrue())
	// Workers that lived on are not doubled, though nobody could see them for longer than their heartbeat_timeout.
	w.g.Expect(alive.registration().Ready).To(Equal(living))
	w.g.Expect(alive.admitted()).To(Equal(1))
	w.g.Expect(part.sent()).To(HaveLen(1))
	w.g.Expect(old.sent()).To(HaveLen(starts))
	for _, f := range []*function{part, old} {
		w.g.Expect(f.admitted()).To(Equal(1))
	}
}

// The connection that listens is cut, and changes are missed: first while it can come back at once, then while no new
// connection is to be had.
func TestListenConnectionIsCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	o := w.operator()
	// The age of the heartbeats would tell as well, much later.
	const long = 10 * time.Minute
	all := []*function{w.function(t, "one", spec{heartbeat: long}), w.function(t, "two", spec{heartbeat: long, runtime: legacy})}
	w.allReady(all...)
	cut := func() {
		w.t.Helper()
		var listeners int
		w.g.Expect(w.pool.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN%'`).Scan(&listeners)).To(Succeed())
		w.g.Expect(listeners).To(Equal(1))
	}
	arrive := func() int { return len(o.lines("notifications arrive")) }
	w.eventually(arrive).Should(Equal(1))

	cut()
	replaceAll(all, 1)
	w.eventually(arrive).Should(Equal(2))

	w.database.refuse()
	cut()
	replaceAll(all, 2)
	w.eventually(func() []string { return o.lines("no notifications") }).Should(HaveLen(2))
	w.database.up()
	w.eventually(arrive).Should(Equal(3))
	replaceAll(all, 1)
	w.allReady(all...)
	for _, f := range all {
		w.g.Expect(f.sent()).To(HaveLen(5))
		w.g.Expect(f.admitted()).To(Equal(5))
	}
}

// The way to the database drops and freezes connections again and again, while workers end.
func TestDatabaseConnectionsFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	o := w.operator()
	var all []*function
	for i := range 8 {
		s := spec{pendingTimeout: expiry}
		if i%2 == 1 {
			s.runtime = legacy
		}
		all = append(all, w.function(t, name("dropped", i), s))
	}
	w.allReady(all...)
	for _, disturb := range []func(){
		w.database.cut,
		func() { w.database.freeze() },
		func() { w.database.cut(); w.database.thaw() },
		w.database.freezeAnswers,
		w.database.thaw,
		w.database.down,
		w.database.up,
		func() { w.database.freezeAnswers() },
		func() { w.database.cut(); w.database.thaw() },
	} {
		for _, f := range all {
			if rand.IntN(2) == 0 {
				f.stop()
			}
		}
		disturb()
		// As long as an operator may need to get from one step to the next.
		w.g.Consistently(o.running).WithTimeout(500 * time.Millisecond).Should(BeTrue())
	}
	w.allReady(all...)
}

// A firewall forgets the connections: they hang for ever, and new ones work. Nothing says so.
func TestDatabaseConnectionsStrand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	w.operator()
	f := w.function(t, "stranded", spec{})
	worker := f.ready()
	w.database.strand()
	f.stop()
	begun := time.Now()
	f.replaced(worker)
	t.Logf("replaced after %v", time.Since(begun))
	f.ready()
	w.g.Expect(f.admitted()).To(Equal(2))
}
