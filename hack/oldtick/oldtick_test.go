package oldtick_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/hack/oldtick"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	key      = "a-service-key"
	function = "slow"
	within   = 30 * time.Second
	often    = 10 * time.Millisecond
)

// scene is one registered function behind a stand-in, and the old tick.
type scene struct {
	Gomega
	t      *testing.T
	pool   *pgxpool.Pool
	server *edgeruntime.Server
	client *edgeruntime.Client
	tick   *oldtick.Ticker
}

func newScene(t *testing.T, kind edgeruntime.Kind, hold edgeruntime.Hold) *scene {
	t.Helper()
	g := NewWithT(t)
	dsn := pgtest.NewDatabase(t)
	_, err := pgstate.Migrate(t.Context(), dsn, pgstate.MigrateOptions{CreateBaseTables: true})
	g.Expect(err).NotTo(HaveOccurred())
	pool, err := pgxpool.New(t.Context(), dsn)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(pool.Close)
	config := edgeruntime.DefaultFunction()
	config.Kind, config.Hold = kind, hold
	server, err := edgeruntime.Start(edgeruntime.Options{DatabaseURL: dsn, Key: key,
		Functions: map[string]edgeruntime.FunctionConfig{function: config}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Close()).To(Succeed()) })
	s := &scene{Gomega: g, t: t, pool: pool, server: server, client: server.Client(), tick: oldtick.New(oldtick.Config{
		Database: pool, FunctionsURL: server.Addresses().FunctionsURL(), Key: key})}
	t.Cleanup(s.tick.Wait)
	s.exec(`INSERT INTO pgflow.worker_functions (function_name, debounce, pending_timeout)
		VALUES ($1, '6 seconds', '60 seconds')`, function)
	return s
}

func (s *scene) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), sql, args...)
	s.Expect(err).NotTo(HaveOccurred())
}

// pass lets time pass for everything that a decision reads, as stored times are the only clock.
func (s *scene) pass(d time.Duration) {
	s.t.Helper()
	s.exec(`UPDATE pgflow.worker_functions SET last_invoked_at = last_invoked_at - $1::interval,
		invocation_expires_at = invocation_expires_at - $1::interval`, d)
	s.exec(`UPDATE pgflow.workers SET last_heartbeat_at = last_heartbeat_at - $1::interval`, d)
}

func (s *scene) requests() []edgeruntime.RequestRecord {
	s.t.Helper()
	records, err := s.client.Requests(s.t.Context(), "", 0)
	s.Expect(err).NotTo(HaveOccurred())
	return records
}

func (s *scene) held() int {
	s.t.Helper()
	state, err := s.client.State(s.t.Context(), function)
	s.Expect(err).NotTo(HaveOccurred())
	return state.Held
}

func (s *scene) liveWorkers() (n int) {
	s.t.Helper()
	s.Expect(s.pool.QueryRow(s.t.Context(), `SELECT count(*) FROM pgflow.workers
		WHERE stopped_at IS NULL AND deprecated_at IS NULL`).Scan(&n)).To(Succeed())
	return n
}

// ticked runs one tick that must queue n requests.
func (s *scene) ticked(n int) {
	s.t.Helper()
	queued, err := s.tick.Tick(s.t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.ExpectWithOffset(1, queued).To(Equal(n))
}

// TestABootSlowerThanTheDebounceIsStartedAgain is the regression that the operator cures: 13 s of boot, a debounce
// of 6 s, a tick each 5 s.
func TestABootSlowerThanTheDebounceIsStartedAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []edgeruntime.Kind{edgeruntime.Legacy014, edgeruntime.Legacy015} {
		for _, hold := range []edgeruntime.Hold{edgeruntime.HoldBoot, edgeruntime.HoldInit} {
			t.Run(fmt.Sprintf("%s held in %s", kind, hold), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, kind, hold)
				s.ticked(1)
				s.Eventually(s.held).WithTimeout(within).WithPolling(often).Should(Equal(1))
				s.pass(5 * time.Second)
				s.ticked(0)
				s.pass(5 * time.Second)
				s.ticked(1)
				s.Eventually(s.requests).WithTimeout(within).WithPolling(often).Should(HaveLen(2))
				if hold == edgeruntime.HoldBoot {
					s.Eventually(s.held).WithTimeout(within).WithPolling(often).Should(Equal(2))
				}
				s.Expect(s.client.Release(t.Context(), function)).To(Succeed())
				s.tick.Wait()
				if hold == edgeruntime.HoldInit {
					// The isolate was active: one worker, though the request was one too many.
					s.Eventually(s.liveWorkers).WithTimeout(within).WithPolling(often).Should(Equal(1))
					return
				}
				s.Eventually(s.liveWorkers).WithTimeout(within).WithPolling(often).Should(Equal(2))
				state, err := s.client.State(t.Context(), function)
				s.Expect(err).NotTo(HaveOccurred())
				s.Expect(state.RunningWorkers()).To(HaveLen(2))
			})
		}
	}
}

// TestReservingSendsOnce: the same boot and the same times, through reserve_invocation from many callers at once.
func TestReservingSendsOnce(t *testing.T) {
	t.Parallel()
	const callers = 16
	s := newScene(t, edgeruntime.Participating, edgeruntime.HoldBoot)
	var sent sync.WaitGroup
	defer sent.Wait()
	// reserve returns what all callers were told; whoever reserved sends.
	reserve := func() map[string]int {
		var (
			mu        sync.Mutex
			decisions = map[string]int{}
			asking    sync.WaitGroup
		)
		for range callers {
			asking.Go(func() {
				decision, id, err := s.reserve(t.Context())
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					decision = err.Error()
				}
				decisions[decision]++
				if decision == "reserved" {
					sent.Go(func() { s.post(t.Context(), id) })
				}
			})
		}
		asking.Wait()
		return decisions
	}
	s.Expect(reserve()).To(Equal(map[string]int{"reserved": 1, "pending": callers - 1}))
	s.Eventually(s.held).WithTimeout(within).WithPolling(often).Should(Equal(1))
	for range 3 {
		s.pass(5 * time.Second)
		s.Expect(reserve()).To(Equal(map[string]int{"pending": callers}))
	}
	s.Expect(s.client.Release(t.Context(), function)).To(Succeed())
	s.Eventually(s.liveWorkers).WithTimeout(within).WithPolling(often).Should(Equal(1))
	s.pass(5 * time.Second)
	s.Expect(reserve()).To(Equal(map[string]int{"ready": callers}))
	s.Expect(s.requests()).To(HaveLen(1))
	s.Expect(s.liveWorkers()).To(Equal(1))
}

func (s *scene) reserve(ctx context.Context) (decision string, id *uuid.UUID, err error) {
	err = s.pool.QueryRow(ctx, `SELECT decision, invocation_id FROM pgflow.reserve_invocation($1)`, function).
		Scan(&decision, &id)
	return decision, id, err
}

func (s *scene) post(ctx context.Context, id *uuid.UUID) {
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.Addresses().FunctionsURL()+"/"+function,
		strings.NewReader("{}"))
	if err != nil {
		s.t.Error(err)
		return
	}
	rq.Header.Set("Authorization", "Bearer "+key)
	rq.Header.Set("X-Pgflow-Invocation-Id", id.String())
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(rq)
	if err != nil {
		s.t.Error(err)
		return
	}
	_ = response.Body.Close()
}

// TestDue: which rows a tick takes.
func TestDue(t *testing.T) {
	t.Parallel()
	s := newScene(t, edgeruntime.Legacy014, edgeruntime.HoldNothing)
	s.Expect(s.client.Patch(t.Context(), function, map[string]any{"mode": "drop"})).To(Succeed()) // no worker but ours
	for _, c := range []struct {
		what   string
		change string
		due    int
	}{
		{"never invoked", `UPDATE pgflow.worker_functions SET last_invoked_at = NULL`, 1},
		{"just invoked, by the tick before", `SELECT`, 0},
		{"invoked longer ago than its own debounce", `UPDATE pgflow.worker_functions SET debounce = '20 seconds',
			last_invoked_at = now() - interval '21 seconds'`, 1},
		{"invoked within its own debounce", `UPDATE pgflow.worker_functions SET
			last_invoked_at = now() - interval '19 seconds'`, 0},
		{"a worker that beat within the debounce", `UPDATE pgflow.worker_functions SET last_invoked_at = NULL;
			INSERT INTO pgflow.workers (worker_id, queue_name, function_name, last_heartbeat_at)
			VALUES (gen_random_uuid(), 'q', 'slow', now() - interval '19 seconds')`, 0},
		{"a worker whose last beat is older than the debounce", `UPDATE pgflow.workers SET
			last_heartbeat_at = now() - interval '21 seconds'`, 1},
		{"a worker that beats, but is deprecated", `UPDATE pgflow.workers SET last_heartbeat_at = now(),
			deprecated_at = now(); UPDATE pgflow.worker_functions SET last_invoked_at = NULL`, 1},
		{"disabled", `UPDATE pgflow.worker_functions SET last_invoked_at = NULL, enabled = false`, 0},
		{"managed as a process", `UPDATE pgflow.worker_functions SET enabled = true, start_mode = 'process'`, 0},
		{"no start mode yet", `ALTER TABLE pgflow.worker_functions DROP COLUMN start_mode CASCADE`, 1},
	} {
		s.exec(c.change)
		queued, err := s.tick.Tick(t.Context())
		s.Expect(err).NotTo(HaveOccurred(), c.what)
		s.Expect(queued).To(Equal(c.due), c.what)
	}
	local := oldtick.New(oldtick.Config{Database: s.pool, FunctionsURL: s.server.Addresses().FunctionsURL(), Key: key,
		Local: true})
	defer local.Wait()
	for range 2 {
		queued, err := local.Tick(t.Context())
		s.Expect(err).NotTo(HaveOccurred())
		s.Expect(queued).To(Equal(1), "in local mode every one is due at every tick")
	}
}

// TestBatches: at most 200 requests are under way at once, and the next batch waits for the slowest.
func TestBatches(t *testing.T) {
	t.Parallel()
	const all, batch = 250, 200
	s := newScene(t, edgeruntime.Legacy015, edgeruntime.HoldNothing)
	booting := edgeruntime.DefaultFunction()
	booting.Hold = edgeruntime.HoldBoot
	s.Expect(s.client.SetDefault(t.Context(), &booting)).To(Succeed())
	s.exec(`DELETE FROM pgflow.worker_functions`)
	s.exec(`INSERT INTO pgflow.worker_functions (function_name) SELECT 'f-' || i FROM generate_series(1, $1) AS i`, all)
	tick := oldtick.New(oldtick.Config{Database: s.pool, FunctionsURL: s.server.Addresses().FunctionsURL(), Key: key,
		Timeout: within})
	queued, err := tick.Tick(t.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(queued).To(Equal(all))
	s.Eventually(s.requests).WithTimeout(within).WithPolling(often).Should(HaveLen(batch))
	first := s.requests()
	for _, r := range first[1:] {
		s.Expect(s.client.Release(t.Context(), r.Function)).To(Succeed())
	}
	s.Consistently(s.requests).WithTimeout(200*time.Millisecond).Should(HaveLen(batch), "one is still under way")
	booting.Hold = edgeruntime.HoldNothing
	s.Expect(s.client.SetDefault(t.Context(), &booting)).To(Succeed())
	s.Expect(s.client.Release(t.Context(), first[0].Function)).To(Succeed())
	tick.Wait()
	records := s.requests()
	s.Expect(records).To(HaveLen(all))
	s.Expect(records[all-1].Authorized).To(BeTrue())
	s.Expect(records[all-1].HasInvocation).To(BeFalse())
}

// TestRun ticks until its context ends.
func TestRun(t *testing.T) {
	t.Parallel()
	s := newScene(t, edgeruntime.Legacy015, edgeruntime.HoldNothing)
	ctx, cancel := context.WithCancel(t.Context())
	total := make(chan int, 1)
	go func() { total <- s.tick.Run(ctx, 20*time.Millisecond) }()
	s.Eventually(s.liveWorkers).WithTimeout(within).WithPolling(often).Should(Equal(1))
	_, err := s.client.Stop(t.Context(), function)
	s.Expect(err).NotTo(HaveOccurred())
	s.pass(7 * time.Second)
	s.Eventually(s.liveWorkers).WithTimeout(within).WithPolling(often).Should(Equal(1))
	cancel()
	s.Eventually(total).WithTimeout(within).Should(Receive(Equal(2)))
}
