package edgeruntime_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	key = "a-service-key"
	// within bounds every wait; nothing here takes a tenth of it on an idle machine.
	within = 30 * time.Second
	often  = 10 * time.Millisecond
)

// world is a stand-in and the database that its runtimes share. Functions of one world do not touch each other, so
// tests that change nothing global share one and use a function each.
type world struct {
	server *edgeruntime.Server
	client *edgeruntime.Client
	pool   *pgxpool.Pool
}

func newWorld(t *testing.T, change func(*edgeruntime.Options)) *world {
	t.Helper()
	dsn := pgtest.NewDatabase(t)
	if _, err := pgstate.Migrate(t.Context(), dsn, pgstate.MigrateOptions{CreateBaseTables: true}); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	options := edgeruntime.Options{DatabaseURL: dsn, Key: key}
	if change != nil {
		change(&options)
	}
	server, err := edgeruntime.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &world{server: server, client: server.Client(), pool: pool}
}

// function is one function of a world, for one test.
type function struct {
	*world
	t    *testing.T
	g    Gomega
	name string
}

// function makes a function named after the test, with a long life and quick heartbeats.
func (w *world) function(t *testing.T, change func(*edgeruntime.FunctionConfig)) *function {
	t.Helper()
	config := edgeruntime.DefaultFunction()
	config.WallClock = 0
	config.Heartbeat = edgeruntime.Millis(50 * time.Millisecond)
	if change != nil {
		change(&config)
	}
	f := &function{world: w, t: t, g: NewWithT(t), name: strings.ReplaceAll(t.Name(), "/", "-")}
	f.g.Expect(w.client.Configure(t.Context(), f.name, config)).To(Succeed())
	return f
}

// registered inserts the function's registration, past its throttle for ever.
func (f *function) registered() *function {
	f.t.Helper()
	f.exec(`INSERT INTO pgflow.worker_functions (function_name) VALUES ($1)`, f.name)
	return f
}

func (f *function) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(f.t.Context(), sql, args...)
	f.g.Expect(err).NotTo(HaveOccurred())
}

// reserve returns the id of a new reservation, which must be given.
func (f *function) reserve() uuid.UUID {
	f.t.Helper()
	var (
		decision string
		id       *uuid.UUID
	)
	err := f.pool.QueryRow(f.t.Context(), `SELECT decision, invocation_id FROM pgflow.reserve_invocation($1)`, f.name).
		Scan(&decision, &id)
	f.g.Expect(err).NotTo(HaveOccurred())
	f.g.Expect(decision).To(Equal("reserved"))
	return *id
}

// dueAgain shifts the registration's stored times so that nothing keeps the next reservation back.
func (f *function) dueAgain() {
	f.t.Helper()
	f.exec(`UPDATE pgflow.worker_functions SET last_invoked_at = NULL, failed_starts = 0 WHERE function_name = $1`, f.name)
}

// expired shifts the current invocation's expiry into the past.
func (f *function) expired() {
	f.t.Helper()
	f.exec(`UPDATE pgflow.worker_functions SET invocation_expires_at = clock_timestamp() - interval '1 second',
		last_invoked_at = NULL WHERE function_name = $1`, f.name)
}

type row struct {
	ID         uuid.UUID
	Invocation *uuid.UUID
	Stopped    *time.Time
	Deprecated *time.Time
	Beat       time.Time
}

// rows of the function's workers, oldest first.
func (f *function) rows() []row {
	f.t.Helper()
	found, err := f.pool.Query(f.t.Context(), `SELECT worker_id, invocation_id, stopped_at, deprecated_at,
		last_heartbeat_at FROM pgflow.workers WHERE function_name = $1 ORDER BY started_at`, f.name)
	f.g.Expect(err).NotTo(HaveOccurred())
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	f.g.Expect(err).NotTo(HaveOccurred())
	return rows
}

// live counts the rows that are neither stopped nor deprecated.
func (f *function) live() int {
	n := 0
	for _, r := range f.rows() {
		if r.Stopped == nil && r.Deprecated == nil {
			n++
		}
	}
	return n
}

func (f *function) state() edgeruntime.FunctionState {
	f.t.Helper()
	state, err := f.client.State(f.t.Context(), f.name)
	f.g.Expect(err).NotTo(HaveOccurred())
	return state
}

func (f *function) patch(fields map[string]any) {
	f.t.Helper()
	f.g.Expect(f.client.Patch(f.t.Context(), f.name, fields)).To(Succeed())
}

func (f *function) eventually(condition any) AsyncAssertion {
	return f.g.Eventually(condition).WithTimeout(within).WithPolling(often)
}

// outcome is the last outcome and its reason in the registration.
func (f *function) outcome() (outcome, reason string) {
	f.t.Helper()
	err := f.pool.QueryRow(f.t.Context(), `SELECT coalesce(last_outcome, ''), coalesce(last_outcome_reason, '')
		FROM pgflow.worker_functions WHERE function_name = $1`, f.name).Scan(&outcome, &reason)
	f.g.Expect(err).NotTo(HaveOccurred())
	return outcome, reason
}

type reply struct {
	edgeruntime.HandlerAnswer
	Code     int
	Text     string
	Location string
	Err      error
}

// with makes the headers of a request with an invocation.
func with(id uuid.UUID) http.Header { return http.Header{"X-Pgflow-Invocation-Id": {id.String()}} }

// post sends a request with the right key; header adds to it or, for Authorization, replaces it.
func (f *function) post(header http.Header) reply {
	f.t.Helper()
	return f.send(f.t.Context(), "/functions/v1/"+url.PathEscape(f.name), header)
}

func (f *function) send(ctx context.Context, path string, header http.Header) reply {
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, f.server.Addresses().Gateway+path,
		strings.NewReader("{}"))
	if err != nil {
		return reply{Err: err}
	}
	rq.Header.Set("Authorization", "Bearer "+key)
	maps.Copy(rq.Header, header)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(rq)
	if err != nil {
		return reply{Err: err}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	r := reply{Code: response.StatusCode, Text: string(text), Location: response.Header.Get("Location"), Err: err}
	_ = json.Unmarshal(text, &r.HandlerAnswer) // bodies of other shapes leave it empty
	return r
}

// posting sends a request in the background.
func (f *function) posting(header http.Header) <-chan reply {
	answered := make(chan reply, 1)
	go func() { answered <- f.post(header) }()
	return answered
}

func (f *function) answerOf(answered <-chan reply) reply {
	f.t.Helper()
	select {
	case r := <-answered:
		f.g.Expect(r.Err).NotTo(HaveOccurred())
		return r
	case <-time.After(within):
		f.t.Fatalf("no answer within %v", within)
		return reply{}
	}
}
