package observer

import (
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// listeningNow returns whether notifications arrive.
func (d *Database) listeningNow() listening {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.plan.listening
}

func TestListenConnectionCut(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.register("f")
	d := w.acquire("f")
	w.listens(d)
	pid := w.count(`SELECT pid ` + ours + ` AND query LIKE 'LISTEN%'`)

	// The change commits when the connection is gone and no other listens yet.
	w.expectWake("f", func() {
		w.exec(`SELECT pg_terminate_backend($1, 5000)`, pid)
		w.start("f")
	})
	w.listens(d)
	w.Expect(w.count(`SELECT pid ` + ours + ` AND query LIKE 'LISTEN%'`)).NotTo(Equal(pid))
	w.expectWake("f", func() { w.exec(`UPDATE pgflow.workers SET stopped_at = clock_timestamp()`) })
}

func TestPoolCutWhileListening(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.register("f")
	d := w.acquire("f")
	w.listens(d)
	var begun time.Time
	w.expectWake("f", func() {
		w.Expect(w.count(`SELECT count(pg_terminate_backend(pid, 5000)) ` + ours + ` AND query NOT LIKE 'LISTEN%'`)).
			NotTo(BeZero())
		begun = time.Now()
		w.start("f")
	})
	w.Expect(w.wakes.lastOf(user("f")).Sub(begun)).To(BeNumerically("<", fullInterval), "no failure, no backoff")
	w.Expect(d.listeningNow()).To(Equal(listeningYes))
	w.Expect(d.Lookup("f").Err).NotTo(HaveOccurred())
}

func TestDatabaseGoneAndBack(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(cluster.Stop)
	url, err := cluster.CreateDatabase(t.Context(), "gone")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w := newWorld(t, url, Options{SweepInterval: 2 * time.Second, UnavailableAfter: 3 * time.Second})
	w.migrate()
	w.register("f")
	d := w.acquire("f")
	w.listens(d)

	w.expectWake("f", func() { w.Expect(cluster.StopServer()).To(Succeed()) })
	o := d.Lookup("f")
	w.Expect(o.Unavailable).To(BeTrue())
	w.Expect(o.ErrSince).To(BeNumerically(">=", 3*time.Second))
	w.Expect(o.Err).To(MatchError(pgstate.ErrUnavailable))
	w.Expect(o.State).NotTo(BeNil(), "what was known last is still there")

	w.expectWake("f", func() { w.Expect(cluster.StartServer(w.t.Context())).To(Succeed()) })
	w.Expect(d.Lookup("f").Err).NotTo(HaveOccurred())

	w.psql = w.dial(url)
	w.listens(d)
	w.expectWake("f", func() { w.start("f") })

	// A quick restart.
	w.Expect(cluster.Restart(w.t.Context())).To(Succeed())
	w.psql = w.dial(url)
	w.exec(`UPDATE pgflow.worker_functions SET enabled = false`)
	w.Eventually(func() bool { return d.Lookup("f").State.Enabled }).Should(BeFalse())
	w.listens(d)
}

func TestSchemaMissingThenMigrated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.NewDatabase(t), Options{SweepInterval: never})
	d, err := w.registry.Acquire(user("f"), w.connection, "f")
	w.Expect(err).NotTo(HaveOccurred())
	w.expectWake("f", func() {})
	o := d.Lookup("f")
	w.Expect(o.Err).To(MatchError(pgstate.ErrSchemaMissing))
	w.Expect(o.Read).To(BeFalse())

	w.expectWake("f", w.migrate)
	o = d.Lookup("f")
	w.Expect(o.Err).NotTo(HaveOccurred())
	w.Expect(o.Read).To(BeTrue())
	w.expectWake("f", func() { w.register("f") })
}

func TestTransactionPooler(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.register("f")
	proxy, url := newPooler(t, w.url)
	proxy.swallow.Store(true)
	t.Cleanup(w.stop) // before the proxy waits for its connections
	w.connection = w.parse(url)
	d := w.acquire("f")
	w.Eventually(d.listeningNow).Should(Equal(listeningNo))
	begun := time.Now()
	w.expectWake("f", func() { w.start("f") })
	w.Expect(w.wakes.lastOf(user("f")).Sub(begun)).To(BeNumerically("<", 2*fullInterval))
	proxy.swallow.Store(false)
	w.listens(d)
}

func TestListenThatFellSilentIsNoticed(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakeClock(time.Now())
	w := newMigratedWorld(t, Options{SweepInterval: never, Clock: clock})
	w.register("f")
	proxy, url := newPooler(t, w.url)
	t.Cleanup(w.stop)
	w.connection = w.parse(url)
	d := w.acquire("f")
	w.Eventually(d.listeningNow).Should(Equal(listeningYes))

	clock.Step(silence)
	w.Consistently(d.listeningNow).Should(Equal(listeningYes))
	proxy.swallow.Store(true)
	w.Eventually(func() listening {
		clock.Step(silence)
		return d.listeningNow()
	}).WithPolling(time.Second).Should(Equal(listeningNo))
}

func TestUnreachableDatabaseBlocksNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.NewDatabase(t), Options{UnavailableAfter: time.Second})
	// It takes connections and says nothing.
	mute, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = mute.Close() })
	connection := w.parse("postgres://u:secret@" + mute.Addr().String() + "/d?sslmode=disable&connect_timeout=2")
	begun := time.Now()
	d, err := w.registry.Acquire(user("f"), connection, "f")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(d.Lookup("f").Read).To(BeFalse())
	w.Expect(time.Since(begun)).To(BeNumerically("<", time.Second))
	w.expectWake("f", func() {})
	o := d.Lookup("f")
	w.Expect(o.Unavailable).To(BeTrue())
	w.Expect(o.Err).To(MatchError(pgstate.ErrUnavailable))
	w.Expect(o.Err.Error()).NotTo(ContainSubstring("secret"))
	begun = time.Now()
	w.stop()
	w.Expect(time.Since(begun)).To(BeNumerically("<", 10*time.Second))
}
