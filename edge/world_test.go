package edge_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	. "github.com/onsi/gomega"
)

const (
	key = "a-service-key"
	// within bounds every wait.
	within = 30 * time.Second
	often  = 10 * time.Millisecond

	twoLines       = "../examples/greet-user/index.ts"
	ownConnections = "../examples/own-connections/index.ts"
)

// client opens a connection per request: an isolate that was killed leaves none behind.
var client = &http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}

// world is one Deno process that runs isolates, and the database that they share.
type world struct {
	dsn    string // what isolates connect to
	host   string
	pool   *pgxpool.Pool
	pooler *pooler // nil: isolates connect to PostgreSQL itself
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dsn: migrated(t)}
	pool, err := pgxpool.New(t.Context(), w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	w.pool = pool

	command := denoCommand(t, nil, "run", "--no-check", "--allow-all", "fixtures/host.ts")
	stdin, err := command.StdinPipe() // it ends when this is closed, also when this process is killed
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Wait()
	})
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the host of the isolates said no port: %v", err)
	}
	w.host = "http://127.0.0.1:" + strings.TrimSpace(port)
	return w
}

// function is one function of a world, for one test.
type function struct {
	*world
	t    *testing.T
	g    Gomega
	name string
	env  map[string]string // of its isolates, beside what all have
}

// function makes a function that is served by isolates of one generation of the library. It is not registered.
func (w *world) function(t *testing.T, generation string) *function {
	t.Helper()
	name := strings.NewReplacer("/", "-", ",", "").Replace(t.Name())
	return &function{world: w, t: t, g: NewWithT(t), name: name, env: map[string]string{"GENERATION": generation}}
}

// registered inserts the function's registration, with nothing that keeps a reservation back.
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

// dueAgain shifts the stored times so that nothing keeps the next reservation back.
func (f *function) dueAgain() *function {
	f.t.Helper()
	f.exec(`UPDATE pgflow.worker_functions SET last_invoked_at = NULL, failed_starts = 0 WHERE function_name = $1`, f.name)
	return f
}

// expire shifts the current invocation's expiry into the past.
func (f *function) expire() {
	f.t.Helper()
	f.exec(`UPDATE pgflow.worker_functions SET invocation_expires_at = clock_timestamp() - interval '1 second',
		last_invoked_at = NULL WHERE function_name = $1`, f.name)
}

type row struct {
	ID         uuid.UUID
	Invocation *uuid.UUID
	Live       bool
	Beat       time.Time
}

// rows of the function's workers, oldest first.
func (f *function) rows() []row {
	f.t.Helper()
	found, err := f.pool.Query(f.t.Context(), `SELECT worker_id, invocation_id, stopped_at IS NULL AND deprecated_at IS NULL,
		last_heartbeat_at FROM pgflow.workers WHERE function_name = $1 ORDER BY started_at, worker_id`, f.name)
	f.g.Expect(err).NotTo(HaveOccurred())
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	f.g.Expect(err).NotTo(HaveOccurred())
	return rows
}

// live returns the rows that are neither stopped nor deprecated.
func (f *function) live() []row {
	f.t.Helper()
	var live []row
	for _, r := range f.rows() {
		if r.Live {
			live = append(live, r)
		}
	}
	return live
}

// outcome is the last outcome of the registration, and its reason.
func (f *function) outcome() []string {
	f.t.Helper()
	var outcome, reason string
	err := f.pool.QueryRow(f.t.Context(), `SELECT coalesce(last_outcome, ''), coalesce(last_outcome_reason, '')
		FROM pgflow.worker_functions WHERE function_name = $1`, f.name).Scan(&outcome, &reason)
	f.g.Expect(err).NotTo(HaveOccurred())
	return []string{outcome, reason}
}

func (f *function) eventually(condition any) AsyncAssertion {
	return f.g.Eventually(condition).WithTimeout(within).WithPolling(often)
}

// isolate is one runtime of a function.
type isolate struct {
	*function
	number int
	url    string
	id     string // SB_EXECUTION_ID

	mayCrash bool
}

// boot boots an isolate with the two-line change.
func (f *function) boot() *isolate { f.t.Helper(); return f.bootProgram(twoLines) }

func (f *function) bootProgram(program string) *isolate {
	f.t.Helper()
	i := &isolate{function: f, id: uuid.NewString()}
	env := map[string]string{"SB_EXECUTION_ID": i.id, "PGFLOW_AUTH_SECRET": key, "SUPABASE_DB_URL": f.dsn}
	maps.Copy(env, f.env)
	var booted struct{ Number, Port int }
	f.g.Expect(call(f.t.Context(), http.MethodPost, f.host, map[string]any{"program": program, "env": env}, &booted)).
		To(Succeed())
	i.number, i.url = booted.Number, "http://127.0.0.1:"+strconv.Itoa(booted.Port)
	f.t.Cleanup(func() {
		if !i.mayCrash && i.crash() != "" {
			f.t.Errorf("an isolate crashed: %s", i.crash())
		}
		i.kill()
	})
	return i
}

// kill ends an isolate without beforeunload.
func (i *isolate) kill() {
	i.t.Helper()
	i.g.Expect(call(context.WithoutCancel(i.t.Context()), http.MethodDelete, fmt.Sprint(i.host, "/", i.number), nil, nil)).
		To(Succeed())
}

// crash is what an isolate died of, by itself.
func (i *isolate) crash() string {
	i.t.Helper()
	var state struct{ Crash string }
	ctx := context.WithoutCancel(i.t.Context())
	i.g.Expect(call(ctx, http.MethodGet, fmt.Sprint(i.host, "/", i.number), nil, &state)).To(Succeed())
	return state.Crash
}

// control is what fixtures/control.ts has.
type control struct {
	Compilations  int
	Rounds        int
	RoundWorkerID uuid.UUID
	Loops         int
}

// set changes what the isolate's library meets, by the names in fixtures/control.ts, and returns the isolate's state.
func (i *isolate) set(change map[string]any) control {
	i.t.Helper()
	var state struct {
		control
		RoundWorkerID string
	}
	i.g.Expect(call(i.t.Context(), http.MethodPost, i.url+"/-/control", change, &state)).To(Succeed())
	state.control.RoundWorkerID, _ = uuid.Parse(state.RoundWorkerID)
	return state.control
}

func (i *isolate) state() control { i.t.Helper(); return i.set(map[string]any{}) }

// beats waits for a heartbeat of a worker's row that is made after the call.
func (i *isolate) beats(worker uuid.UUID) {
	i.t.Helper()
	var now time.Time
	i.g.Expect(i.pool.QueryRow(i.t.Context(), `SELECT clock_timestamp()`).Scan(&now)).To(Succeed())
	i.eventually(func() time.Time {
		for _, r := range i.rows() {
			if r.ID == worker {
				return r.Beat
			}
		}
		return time.Time{}
	}).Should(BeTemporally(">", now))
}

// reply is what a worker function answered.
type reply struct {
	Code         int
	Status       string
	WorkerID     string
	FunctionName string
	Handshake    string
	Reason       string
	Error        string
	Message      string
}

// word sums a reply up: its code, its status or error, and its reason.
func (r reply) word() string {
	return strings.TrimSpace(fmt.Sprint(r.Code, " ", r.Status, r.Error, " ", r.Reason))
}

func with(id uuid.UUID) http.Header { return http.Header{"X-Pgflow-Invocation-Id": {id.String()}} }

// post sends a request with the right key; header adds to it or, for Authorization, replaces it.
func (i *isolate) post(header http.Header) reply {
	i.t.Helper()
	r, err := i.send(header)
	i.g.Expect(err).NotTo(HaveOccurred())
	return r
}

// posting sends a request in the background. The test reads the answer with answerOf.
func (i *isolate) posting(header http.Header) <-chan reply {
	answered := make(chan reply, 1)
	go func() {
		r, err := i.send(header)
		if err != nil {
			r.Message = err.Error()
		}
		answered <- r
	}()
	return answered
}

func (f *function) answerOf(answered <-chan reply) reply {
	f.t.Helper()
	var r reply
	f.eventually(answered).Should(Receive(&r))
	return r
}

func (i *isolate) send(header http.Header) (r reply, err error) {
	rq, err := http.NewRequestWithContext(i.t.Context(), http.MethodPost, i.url+"/"+i.name, strings.NewReader("{}"))
	if err != nil {
		return r, err
	}
	rq.Header.Set("Authorization", "Bearer "+key)
	rq.Header.Set("Content-Type", "application/json")
	maps.Copy(rq.Header, header)
	response, err := client.Do(rq)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	r.Code = response.StatusCode
	return r, json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&r)
}

// call sends body as JSON and reads the answer into into, if that is not nil.
func call(ctx context.Context, method, url string, body, into any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	rq, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	response, err := client.Do(rq)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s %w", method, url, response.Status, text, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
