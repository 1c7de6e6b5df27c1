package observer

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// never is a sweep interval that no test lives to see: what is noticed then was notified or due.
const never = time.Hour

// wakes records who was woken, when and how often.
type wakes struct {
	mu    sync.Mutex
	count map[types.NamespacedName]int
	last  map[types.NamespacedName]time.Time
}

func (w *wakes) wake(user types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[user]++
	w.last[user] = time.Now()
}

func (w *wakes) of(user types.NamespacedName) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count[user]
}

func (w *wakes) lastOf(user types.NamespacedName) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[user]
}

// world is a registry and a person with psql.
type world struct {
	*WithT
	t          testing.TB
	url        string
	connection pgstate.Connection
	psql       *pgx.Conn
	registry   *Registry
	wakes      *wakes
	stop       func() // stops the registry and returns when Start has
}

// newWorld returns a world around an empty database.
func newWorld(t testing.TB, url string, options Options) *world {
	t.Helper()
	w := &world{
		WithT: NewWithT(t), t: t, url: url,
		wakes: &wakes{count: map[types.NamespacedName]int{}, last: map[types.NamespacedName]time.Time{}},
	}
	w.SetDefaultEventuallyTimeout(15 * time.Second)
	w.SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	w.SetDefaultConsistentlyDuration(300 * time.Millisecond)
	w.SetDefaultConsistentlyPollingInterval(5 * time.Millisecond)
	w.connection = w.parse(url)
	w.psql = w.dial(url)
	w.registry = NewRegistry(options, w.wakes.wake)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.registry.Start(ctx)
	}()
	w.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(w.stop)
	return w
}

// newMigratedWorld returns a world around a migrated database.
func newMigratedWorld(t testing.TB, options Options) *world {
	t.Helper()
	w := newWorld(t, pgtest.NewDatabase(t), options)
	w.migrate()
	return w
}

func (w *world) migrate() {
	w.t.Helper()
	_, err := pgstate.Migrate(w.t.Context(), w.url, pgstate.MigrateOptions{CreateBaseTables: true})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) parse(url string) pgstate.Connection {
	w.t.Helper()
	connection, err := pgstate.ParseURL(url)
	w.Expect(err).NotTo(HaveOccurred())
	return connection
}

// dial returns a connection that is not counted as one of ours.
func (w *world) dial(url string) *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), url)
	w.Expect(err).NotTo(HaveOccurred())
	w.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.psql.Exec(w.t.Context(), sql, args...)
	w.Expect(err).NotTo(HaveOccurred())
}

// count returns the number that a query yields.
func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	var n int
	w.Expect(w.psql.QueryRow(w.t.Context(), sql, args...).Scan(&n)).To(Succeed())
	return n
}

// ours selects the registry's connections to this database.
const ours = `FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'pgflow-operator'`

// user is a user's name.
func user(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "test", Name: name}
}

// register adds a registration whose attempts are never due again once one was made.
func (w *world) register(function string) {
	w.t.Helper()
	w.exec(`INSERT INTO pgflow.worker_functions (function_name, debounce, last_invoked_at)
		VALUES ($1, '1 h', clock_timestamp())`, function)
}

// acquire makes the function's namesake its user and waits until it was woken for the first time.
func (w *world) acquire(function string) *Database {
	w.t.Helper()
	d, err := w.registry.Acquire(user(function), w.connection, function)
	w.Expect(err).NotTo(HaveOccurred())
	w.Eventually(func() bool { return d.Lookup(function).Read }).Should(BeTrue())
	w.Eventually(func() int { return w.wakes.of(user(function)) }).ShouldNot(BeZero())
	return d
}

// listens waits until notifications arrive and what they might have missed was read.
func (w *world) listens(d *Database) {
	w.t.Helper()
	w.Eventually(func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.plan.listening == listeningYes && !d.plan.full && len(d.pending) == 0
	}).Should(BeTrue())
}

// start inserts a worker as a published pgflow worker does.
func (w *world) start(function string) uuid.UUID {
	w.t.Helper()
	id := uuid.New()
	w.exec(`INSERT INTO pgflow.workers (queue_name, worker_id, function_name) VALUES ('q', $1, $2)`, id, function)
	return id
}

// expectWake runs change and expects exactly one wake of the function's user, and no more.
func (w *world) expectWake(function string, change func()) {
	w.t.Helper()
	before := w.wakes.of(user(function))
	change()
	w.Eventually(func() int { return w.wakes.of(user(function)) }).Should(Equal(before + 1))
	w.Consistently(func() int { return w.wakes.of(user(function)) }).Should(Equal(before + 1))
}
