package observer

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// Not parallel: it looks at all goroutines.
func TestStartReturnsWhenEverythingHasEnded(t *testing.T) {
	before := goleak.IgnoreCurrent()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	d := w.acquire("f")
	_, err := d.Store().Reserve(w.t.Context(), "f")
	w.Expect(err).NotTo(HaveOccurred())
	w.stop()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	w.Expect(d.pool.Stat().TotalConns()).To(BeZero())
	w.Expect(string(stacks)).NotTo(Or(ContainSubstring("observer.(*listener)"), ContainSubstring("observer.(*Database)")))
	w.Expect(goleak.Find(before)).To(Succeed())
	w.Eventually(func() int { return w.count(`SELECT count(*) ` + ours) }).Should(BeZero())
	_, err = w.registry.Acquire(user("f"), w.connection, "f")
	w.Expect(err).To(MatchError(errStopped))
	w.registry.Release(user("f"))
}

func TestNothingIsLeftAfterTheLastUser(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	other := w.parse(w.url + "&application_name=another") // another key
	for i := range 1000 {
		function := fmt.Sprintf("f%d", i%100)
		_, err := w.registry.Acquire(user(fmt.Sprint(i)), w.connection, function)
		w.Expect(err).NotTo(HaveOccurred())
		d, err := w.registry.Acquire(user(fmt.Sprint(i)), w.connection, function)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.registry.Acquire(user(fmt.Sprint("other", i)), other, function)).NotTo(BeIdenticalTo(d))
	}
	w.Expect(w.registry.databases).To(HaveLen(2))
	for i := range 1000 {
		for _, u := range []types.NamespacedName{user(fmt.Sprint(i)), user(fmt.Sprint("other", i))} {
			held := w.registry.users[u]
			w.Eventually(func() bool { return held.database.Lookup(held.function).Read }).Should(BeTrue())
		}
	}
	for i := range 1000 {
		w.registry.Release(user(fmt.Sprint("other", i)))
		w.registry.Release(user(fmt.Sprint(i)))
		w.registry.Release(user(fmt.Sprint(i)))
	}
	w.Expect(w.registry.databases).To(BeEmpty())
	w.Expect(w.registry.users).To(BeEmpty())
	w.Eventually(func() int { return w.count(`SELECT count(*) ` + ours) }).Should(BeZero())

	// A user alone, many times over.
	for range 1000 {
		_, err := w.registry.Acquire(user("f"), w.connection, "f")
		w.Expect(err).NotTo(HaveOccurred())
		w.registry.Release(user("f"))
	}
	w.registry.running.Wait()
	w.Eventually(func() int { return w.count(`SELECT count(*) ` + ours) }).Should(BeZero())
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.register("f")
	d := w.acquire("f")
	w.listens(d)
	ctx, cancel := context.WithCancel(w.t.Context())
	var callers sync.WaitGroup
	var calls atomic.Int64
	for range 50 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if _, err := d.Store().Reserve(ctx, "f"); err == nil {
					calls.Add(1)
				}
			}
		})
	}
	most := 0
	for calls.Load() < 1000 {
		most = max(most, w.count(`SELECT count(*) `+ours))
	}
	// Writes that queue for the pool do not keep the observer from reading.
	w.expectWake("f", func() { w.exec(`UPDATE pgflow.worker_functions SET enabled = false`) })
	w.Expect(w.wakes.lastOf(user("f"))).To(BeTemporally("~", time.Now(), time.Second))
	cancel()
	callers.Wait()
	w.Expect(most).To(Equal(poolSize+1), "one listens")
}

func TestMovingAUser(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.register("a")
	d, err := w.registry.Acquire(user("u"), w.connection, "a")
	w.Expect(err).NotTo(HaveOccurred())
	w.Eventually(func() int { return w.wakes.of(user("u")) }).Should(Equal(1))
	w.listens(d)

	// To another function of the same database, which stays open.
	w.expectWake("u", func() {
		same, err := w.registry.Acquire(user("u"), w.connection, "b")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(same).To(BeIdenticalTo(d))
	})
	w.Expect(d.Lookup("a").Read).To(BeFalse())
	woken := w.wakes.of(user("u"))
	w.exec(`UPDATE pgflow.worker_functions SET enabled = false WHERE function_name = 'a'`)
	w.Consistently(func() int { return w.wakes.of(user("u")) }).Should(Equal(woken))

	// To another database: the first one closes.
	second := pgtest.NewDatabase(t)
	_, err = pgstate.Migrate(w.t.Context(), second, pgstate.MigrateOptions{CreateBaseTables: true})
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(w.stop)
	w.expectWake("u", func() {
		moved, err := w.registry.Acquire(user("u"), w.parse(second), "b")
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(moved).NotTo(BeIdenticalTo(d))
	})
	w.Eventually(func() int { return w.count(`SELECT count(*) ` + ours) }).Should(BeZero())
	w.Expect(w.registry.databases).To(HaveLen(1))
}

func TestUnusableConnection(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := NewRegistry(Options{}, func(types.NamespacedName) {})
	_, err := r.Acquire(user("u"), pgstate.Connection{}, "f")
	g.Expect(err).To(HaveOccurred())
	g.Expect(r.databases).To(BeEmpty())
	g.Expect(r.users).To(BeEmpty())
}

func TestManyUsersAtOnce(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			for j := range 200 {
				u := user(fmt.Sprint(i, j%10))
				d, err := w.registry.Acquire(u, w.connection, fmt.Sprint(j%7))
				if err != nil {
					w.t.Error(err)
					return
				}
				d.Lookup(fmt.Sprint(j % 7))
				d.Refresh(fmt.Sprint(j % 7))
				if j%3 == 0 {
					w.registry.Release(u)
				}
				runtime.Gosched()
			}
		})
	}
	workers.Wait()
}
