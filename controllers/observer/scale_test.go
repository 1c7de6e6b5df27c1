package observer

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// registerMany adds n registrations f1..fn, each with a healthy worker and dead predecessors.
func (w *world) registerMany(n, dead int) {
	w.t.Helper()
	w.exec(`INSERT INTO pgflow.worker_functions (function_name, debounce, last_invoked_at, heartbeat_timeout)
		SELECT 'f' || i, '1 h', clock_timestamp(), '1 h' FROM generate_series(1, $1::int) i`, n)
	w.exec(`ALTER TABLE pgflow.workers DISABLE TRIGGER USER`)
	w.exec(`INSERT INTO pgflow.workers (worker_id, queue_name, function_name, last_heartbeat_at)
		SELECT gen_random_uuid(), 'q', 'f' || i, clock_timestamp() - interval '1 day'
		FROM generate_series(1, $1::int) i, generate_series(1, $2::int)`, n, dead)
	w.exec(`INSERT INTO pgflow.workers (worker_id, queue_name, function_name)
		SELECT gen_random_uuid(), 'q', 'f' || i FROM generate_series(1, $1::int) i`, n)
	w.exec(`ALTER TABLE pgflow.workers ENABLE TRIGGER USER`)
	w.exec(`UPDATE pgflow.worker_functions f SET last_worker_id = w.worker_id FROM pgflow.workers w
		WHERE w.function_name = f.function_name AND w.last_heartbeat_at > clock_timestamp() - interval '1 h'`)
	w.exec(`VACUUM ANALYZE pgflow.workers, pgflow.worker_functions`)
}

func TestManyNotificationsAreReadInAFewBatches(t *testing.T) {
	t.Parallel()
	const n = 1000
	w := newMigratedWorld(t, Options{})
	w.registerMany(n, 1)
	options := NewRegistry(Options{SweepInterval: never}, nil).options
	var woken atomic.Int64
	d, err := open(w.connection, options, func(types.NamespacedName) { woken.Add(1) })
	w.Expect(err).NotTo(HaveOccurred())
	for i := range n {
		function := fmt.Sprint("f", i+1)
		d.add(user(function), function)
	}

	// As run does, and counting.
	var reads atomic.Int64
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(w.t.Context())
	running.Go(func() { newListener(d).run(ctx) })
	running.Go(func() {
		r := &reader{pool: d.pool}
		defer r.release()
		d.loop(ctx, func(ctx context.Context, todo *job) (pgstate.Snapshot, error) {
			reads.Add(1)
			return r.read(ctx, todo)
		})
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		d.pool.Close()
	})
	w.Eventually(woken.Load).Should(BeEquivalentTo(n))
	w.listens(d)

	before := reads.Load()
	begun := time.Now()
	w.exec(`UPDATE pgflow.workers SET stopped_at = clock_timestamp() WHERE last_heartbeat_at > clock_timestamp() - interval '1 h'`)
	w.Eventually(woken.Load).Should(BeEquivalentTo(2 * n))
	t.Logf("%d stops to as many wakes: %v, %d reads", n, time.Since(begun), reads.Load()-before)
	w.Expect(reads.Load() - before).To(BeNumerically("<=", 20))

	// And then there is nothing more to read.
	before = reads.Load()
	w.Consistently(reads.Load).Should(Equal(before))
}

// BenchmarkSnapshot is one full read of 10,000 registrations, their 10,000 healthy workers and 100,000 dead ones: time and
// memory on our side, bytes from the server.
func BenchmarkSnapshot(b *testing.B) {
	const n = 10_000
	w := newMigratedWorld(b, Options{})
	w.registerMany(n, 10)
	config, err := w.connection.PoolConfig()
	w.Expect(err).NotTo(HaveOccurred())
	var received atomic.Int64
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return countingConn{conn, &received}, err
	}
	conn, err := pgx.ConnectConfig(b.Context(), config.ConnConfig)
	w.Expect(err).NotTo(HaveOccurred())
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	store := pgstate.NewStore(conn)
	d := &Database{clock: NewRegistry(Options{}, nil).options.Clock, functions: map[string]*entry{}, pending: map[string]struct{}{}, changed: make(chan struct{}, 1)}
	var functions []string
	for i := range n {
		function := fmt.Sprint("f", i+1)
		functions = append(functions, function)
		d.add(user(function), function)
	}
	read := func() (took time.Duration) {
		for names := range slices.Chunk(functions, batchLimit) {
			sent := time.Now()
			snapshot, err := store.StatesOf(b.Context(), names)
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(snapshot.States).To(HaveLen(len(names)))
			answered := time.Now()
			d.apply(&job{functions: names}, snapshot, sent, answered)
			took += time.Since(answered)
		}
		return took
	}
	read()
	received.Store(0)
	var applying time.Duration
	b.ReportAllocs()
	for b.Loop() {
		applying += read()
	}
	b.ReportMetric(float64(received.Load())/float64(b.N), "wire-B/op")
	b.ReportMetric(float64(applying.Microseconds())/1000/float64(b.N), "apply-ms/op")
}

// BenchmarkBatch is the read of one function among as many.
func BenchmarkBatch(b *testing.B) {
	const n = 10_000
	w := newMigratedWorld(b, Options{})
	w.registerMany(n, 10)
	config, err := w.connection.PoolConfig()
	w.Expect(err).NotTo(HaveOccurred())
	conn, err := pgx.ConnectConfig(b.Context(), config.ConnConfig)
	w.Expect(err).NotTo(HaveOccurred())
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	store := pgstate.NewStore(conn)
	for b.Loop() {
		snapshot, err := store.StatesOf(b.Context(), []string{"f77"})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(snapshot.States).To(HaveLen(1))
	}
}

// countingConn counts what it receives.
type countingConn struct {
	net.Conn
	received *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}
