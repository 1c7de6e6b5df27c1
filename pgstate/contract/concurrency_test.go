package contract_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	. "github.com/onsi/gomega"
)

//go:embed testdata/audit.sql
var auditSQL string

const (
	callers       = 32
	roundsPerCall = 200 // of each caller
)

// Any number of callers may call anything at any time. 32 connections mix all calls at random over a few functions;
// an audit trigger's log is then judged, change by change, by a model of the contract.
func TestAnybodyMayCallAnythingAtAnyTime(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	d := migrated(t)
	fs := []function{d.function(t, ""), d.function(t, ""), d.function(t, `handshake = 'required'`), d.function(t, ``)}
	d.exec(t, auditSQL)
	w := &world{t: t, d: d, functions: fs, issued: map[string][]string{}, workers: map[string][]string{}, accepted: map[string]map[string]bool{}}
	w.everybodyCalls(seed)
}

// everybodyCalls lets all callers make all their calls, and judges what came of it.
func (w *world) everybodyCalls(seed uint64) {
	t, d := w.t, w.d
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	failures := make(chan error, callers)
	for i := range callers {
		c := d.connect(t)
		go func() {
			caller := &caller{world: w, c: c, random: rand.New(rand.NewPCG(seed, uint64(i)))}
			for range roundsPerCall {
				if err := caller.round(ctx); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	for range callers {
		if err := <-failures; err != nil {
			t.Error(describe(err))
		}
	}
	if t.Failed() {
		return
	}
	w.judge()
	for _, f := range w.functions { // whatever has happened, each is startable again
		f.set(`enabled = true, start_mode = 'http'`)
		f.passes(`1 h`)
		NewWithT(t).Expect(f.reserve().decision).To(Equal("reserved"))
	}
}

// world is what the callers share: the ids that were ever reserved, and who was told to be accepted.
type world struct {
	t         testing.TB
	d         *database
	functions []function
	sqlPath   bool // ensure_workers() is called too

	mu       sync.Mutex
	issued   map[string][]string        // by function, in the order in which the answers came
	workers  map[string][]string        // so too
	accepted map[string]map[string]bool // workers by invocation
}

type caller struct {
	*world
	c      *pgx.Conn
	random *rand.Rand
}

// round makes one call chosen at random. Refusals are answers; any other error is a failure.
func (c *caller) round(ctx context.Context) error {
	f := c.functions[c.random.IntN(len(c.functions))]
	id := c.anyID(f.name)
	if c.sqlPath && c.random.IntN(5) == 0 {
		return c.ensure(ctx)
	}
	switch n := c.random.IntN(100); {
	case n < 20:
		return c.reserve(ctx, f.name)
	case n < 40:
		worker := c.anyWorker(f.name)
		return c.call(ctx, `select 1 from pgflow.receive_invocation($1, $2, $3)`, f.name, orNull(id), orNull(worker))
	case n < 51:
		return c.accept(ctx, f.name, id)
	case n < 58:
		return c.insert(ctx, f.name, id)
	case n < 61:
		return c.insert(ctx, f.name, "")
	case n < 66:
		return c.call(ctx, `select 1 from pgflow.dismiss_invocation($1, $2, 'of ' || $2::uuid::text)`, f.name, orNull(id))
	case n < 69:
		return c.call(ctx, `select 1 from pgflow.clear_throttle($1)`, f.name)
	case n < 73: // workers end; the lock first, so that the log is in the order of what the decisions read
		return c.locked(ctx, "end", f.name, [2]string{`stopped_at`, `deprecated_at`}[c.random.IntN(2)]+` = clock_timestamp()`)
	case n < 85:
		return c.locked(ctx, "end", f.name, `last_heartbeat_at = clock_timestamp() - interval '1 h'`)
	case n < 92: // pass the pending timeout and the throttle
		return c.as(ctx, "shift", `update pgflow.worker_functions set last_invoked_at = last_invoked_at - interval '10 min',
			invocation_expires_at = invocation_expires_at - interval '10 min', last_outcome_at = last_outcome_at - interval '10 min' where function_name = $1`, f.name)
	default:
		return c.as(ctx, "configure", `update pgflow.worker_functions set enabled = $2, start_mode = $3 where function_name = $1`,
			f.name, c.random.IntN(5) > 0, [...]string{"http", "http", "http", "http", "process"}[c.random.IntN(5)])
	}
}

// anyID is mostly one of the newest ids of the function, and sometimes an old, foreign, unknown or null one.
func (c *caller) anyID(function string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := c.issued[function]
	switch n := c.random.IntN(20); {
	case n == 0:
		return ""
	case n == 1 || len(ids) == 0:
		return newID()
	case n == 2:
		if foreign := c.issued[c.functions[c.random.IntN(len(c.functions))].name]; len(foreign) > 0 {
			return foreign[c.random.IntN(len(foreign))]
		}
		return ids[0]
	case n < 6:
		return ids[c.random.IntN(len(ids))]
	default:
		return ids[len(ids)-1]
	}
}

// anyWorker is a new worker, or one of the last of the function.
func (c *caller) anyWorker(function string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	workers := c.workers[function]
	if len(workers) == 0 || c.random.IntN(3) == 0 {
		return newID()
	}
	return workers[max(0, len(workers)-1-c.random.IntN(3))]
}

func (c *caller) reserve(ctx context.Context, function string) error {
	var decision string
	var id *string
	err := c.c.QueryRow(ctx, `select decision, invocation_id::text from pgflow.reserve_invocation($1)`, function).Scan(&decision, &id)
	if err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	if decision == "reserved" {
		c.mu.Lock()
		c.issued[function] = append(c.issued[function], *id)
		c.mu.Unlock()
	}
	return nil
}

func (c *caller) accept(ctx context.Context, function, id string) error {
	worker := c.anyWorker(function)
	var verdict string
	err := c.c.QueryRow(ctx, `select verdict from pgflow.accept_invocation($1, $2, $3, 'queue')`, function, orNull(id), worker).Scan(&verdict)
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	if verdict == "accepted" {
		c.admitted(function, id, worker)
	}
	return nil
}

func (c *caller) insert(ctx context.Context, function, id string) error {
	worker := newID()
	_, err := c.c.Exec(ctx, `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id) values ('queue', $1, $2, $3)`, worker, function, orNull(id))
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "PF001" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	c.admitted(function, id, worker)
	return nil
}

func (c *caller) admitted(function, id, worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers[function] = append(c.workers[function], worker)
	if id == "" {
		return
	}
	if c.accepted[id] == nil {
		c.accepted[id] = map[string]bool{}
	}
	c.accepted[id][worker] = true
}

func (c *caller) call(ctx context.Context, sql string, args ...any) error {
	if _, err := c.c.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// as runs a statement of somebody who is no party to the handshake, and tells the audit so.
func (c *caller) as(ctx context.Context, actor, sql string, args ...any) error {
	return pgx.BeginFunc(ctx, c.c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select set_config('audit.actor', $1, true)`, actor); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// locked changes the function's workers while nothing is decided about it.
func (c *caller) locked(ctx context.Context, actor, function, settings string) error {
	return pgx.BeginFunc(ctx, c.c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select set_config('audit.actor', $1, true)`, actor); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `select from pgflow.worker_functions where function_name = $1 for update`, function); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `update pgflow.workers set `+settings+` where function_name = $1 and stopped_at is null and deprecated_at is null`, function)
		return err
	})
}
