package faults_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// The API server hangs for a minute: the leader, with the manifests' settings, goes on with starts all the while, and the
// statuses are right when it is back.
func TestAPIServerHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	o := w.operator("--leader-elect")
	all := []*function{w.function(t, "one", spec{}), w.function(t, "two", spec{}), w.function(t, "three", spec{runtime: legacy})}
	w.allReady(all...)
	o.api.freeze()
	starts := 1
	for frozen := time.Now(); time.Since(frozen) < time.Minute; starts++ {
		replaceAll(all, 1)
	}
	w.g.Expect(o.lines("a status could not be written")).NotTo(BeEmpty())
	o.api.thaw()
	w.allReady(all...)
	w.g.Expect(o.running()).To(BeTrue())
	t.Logf("%d starts each in a minute", starts)
	for _, f := range all {
		w.g.Expect(f.sent()).To(HaveLen(starts))
		w.g.Expect(f.admitted()).To(Equal(starts))
	}
}

// The API server is gone, and another process takes its place; meanwhile nothing is different for workers. This stops the
// one that all share, so it runs before the tests that are parallel.
func TestAPIServerRestarts(t *testing.T) {
	w := newWorld(t, setting{})
	o := w.operator()
	all := []*function{w.function(t, "one", spec{}), w.function(t, "two", spec{runtime: legacy})}
	w.allReady(all...)
	w.g.Expect(shared.kube.StopAPIServer()).To(Succeed())
	replaceAll(all, 3)
	w.g.Expect(shared.kube.StartAPIServer()).To(Succeed())
	w.allReady(all...)
	w.function(t, "three", spec{}).ready() // new objects are seen
	w.g.Expect(o.running()).To(BeTrue())
	for _, f := range all {
		w.g.Expect(f.sent()).To(HaveLen(4))
		w.g.Expect(f.admitted()).To(Equal(4))
	}
}

// The operator starts when the API server cannot be reached, and begins when it can.
func TestStartedWithoutAPIServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	f := w.function(t, "patient", spec{})
	o := w.operator()
	o.api.down() // before the process has got as far as to connect
	w.eventually(func() []string { return o.lines("API server does not answer", "connection refused") }).Should(HaveLen(1))
	w.eventually(func() error { return o.probes("healthz") }).Should(Succeed())
	w.g.Expect(f.sent()).To(BeEmpty())
	o.api.up()
	f.ready()
	w.g.Expect(f.sent()).To(HaveLen(1))
}

// replaceAll ends the functions' workers and waits for the next ones, some times.
func replaceAll(functions []*function, times int) {
	for range times {
		before := map[*function]registration{}
		for _, f := range functions {
			before[f] = f.registration()
			f.stop()
		}
		for _, f := range functions {
			f.replaced(before[f].Ready)
		}
	}
}
