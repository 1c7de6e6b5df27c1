package contract_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
)

// Calls of ensure_workers() beside all others at any time: the same model judges the audit, and pg_net has exactly what
// those calls have reserved.
func TestEnsureWorkersBesideAnybody(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	d := sqlPath(t)
	fs := []function{d.function(t, ""), d.function(t, ""), d.function(t, `handshake = 'required'`), d.function(t, ``)}
	d.exec(t, auditSQL)
	w := &world{t: t, d: d, functions: fs, sqlPath: true,
		issued: map[string][]string{}, workers: map[string][]string{}, accepted: map[string]map[string]bool{}}
	w.everybodyCalls(seed)
	g := NewWithT(t)
	g.Expect(d.text(t, `select count(*) from net.http_request_queue`)).NotTo(Equal("0"))
	g.Expect(d.text(t, `select count(*) - count(distinct headers ->> 'X-Pgflow-Invocation-Id') from net.http_request_queue`)).To(Equal("0"), "sent twice")
}

// ensure calls ensure_workers() and learns the ids from what it enqueued.
func (c *caller) ensure(ctx context.Context) error {
	var issued [][2]string
	err := pgx.BeginFunc(ctx, c.c, func(tx pgx.Tx) error {
		rows, err := tryEnsure(ctx, tx)
		if err != nil {
			return err
		}
		for _, s := range rows {
			var id string
			if err := tx.QueryRow(ctx, `select headers ->> 'X-Pgflow-Invocation-Id' from net.http_request_queue
				where id = $1 and url = $2`, s.Request, projectURL+"/"+s.Function).Scan(&id); err != nil {
				return err
			}
			issued = append(issued, [2]string{s.Function, id})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ensure: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range issued {
		c.issued[i[0]] = append(c.issued[i[0]], i[1])
	}
	return nil
}

// Ticks from many connections at once, operators' reservations among them: one invocation each, whoever made it, and
// what pg_net has are those that ticks made.
func TestEnsureWorkersFromManyConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	g := NewWithT(t)
	const functions, ticks, operators = 60, 12, 4
	d.exec(t, `insert into pgflow.worker_functions (function_name) select 'f' || n from generate_series(1, $1::int) n`, functions)
	d.exec(t, auditSQL)
	type outcome struct {
		reserved int
		err      error
	}
	outcomes := make(chan outcome)
	begin := make(chan struct{})
	for range ticks {
		c := d.connect(t)
		go func() {
			<-begin
			rows, err := tryEnsure(t.Context(), c)
			outcomes <- outcome{len(rows), err}
		}()
	}
	for i := range operators {
		c := d.connect(t)
		go func() {
			<-begin
			var o outcome
			for n := range functions {
				var decision string
				if o.err = c.QueryRow(t.Context(), `select decision from pgflow.reserve_invocation($1)`,
					fmt.Sprintf("f%d", (n*7+i*13)%functions+1)).Scan(&decision); o.err != nil {
					break
				}
				if decision == "reserved" {
					o.reserved++
				}
			}
			outcomes <- o
		}()
	}
	close(begin)
	total := 0
	for range ticks + operators {
		o := <-outcomes
		if o.err != nil {
			t.Error(describe(o.err))
		}
		total += o.reserved
	}
	total += len(ensure(t, d.pool)) // what somebody held and rolled nothing back
	g.Expect(total).To(Equal(functions))
	g.Expect(d.text(t, `select count(*) from audit.log where relation = 'worker_functions' and new ->> 'invocation_id' is distinct from old ->> 'invocation_id'`)).
		To(Equal(fmt.Sprint(functions)), "reservations")
	g.Expect(d.text(t, `select count(*) from net.http_request_queue q where not exists (
		select from pgflow.worker_functions f where f.invocation_id::text = q.headers ->> 'X-Pgflow-Invocation-Id' and q.url like '%/' || f.function_name)`)).
		To(Equal("0"), "requests for an invocation that is not the function's")
}

// A row that somebody holds is skipped, not waited for; the others are served.
func TestEnsureWorkersSkipsWhatIsLocked(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	g := NewWithT(t)
	held, free := d.function(t, ""), d.function(t, "")
	tx := held.locked()
	c := d.connect(t)
	_, err := c.Exec(t.Context(), `set statement_timeout = '2 s'`)
	must(t, err)
	g.Expect(ensured(t, c)).To(Equal([]string{free.name}))
	must(t, tx.Rollback(t.Context()))
	g.Expect(ensured(t, c)).To(Equal([]string{held.name}))
	g.Expect(d.requests(t)).To(HaveLen(2))
}

// What was read before the locks were held decides nothing: all that happens between the first look and the lock counts.
func TestEnsureWorkersDecidesAfterTheLock(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	g := NewWithT(t)
	changes := map[string]struct {
		change func(f function)
		want   string // phase
	}{
		"reserved by another":  {func(f function) { f.reserved() }, "pending"},
		"a worker registered":  {func(f function) { f.worker() }, "ready"},
		"accepted":             {func(f function) { f.admitted() }, "ready"},
		"disabled":             {func(f function) { f.set(`enabled = false`) }, "disabled"},
		"made a process":       {func(f function) { f.set(`start_mode = 'process'`) }, "process"},
		"dismissed and waits":  {func(f function) { f.dismiss(f.reserved(), "no") }, "retryable"},
		"deleted":              {func(f function) { d.exec(t, `delete from pgflow.worker_functions where function_name = $1`, f.name) }, ""},
		"nothing has happened": {func(function) {}, "pending"},
	}
	fs := map[string]function{}
	for name := range changes {
		fs[name] = d.named(t, name, "")
	}
	gate := d.begin(t)
	_, err := gate.Exec(t.Context(), `select pg_advisory_xact_lock(7)`)
	must(t, err)
	result := make(chan []string, 1)
	c := d.connect(t)
	go func() {
		names := []string{}
		rows, err := tryEnsure(t.Context(), c)
		for _, s := range rows {
			names = append(names, s.Function)
		}
		if err != nil {
			names = append(names, err.Error())
		}
		result <- names
	}()
	d.waiting(t, 1) // it has looked, and reads the vault
	for name, change := range changes {
		change.change(fs[name])
	}
	must(t, gate.Rollback(t.Context()))
	g.Expect(<-result).To(Equal([]string{"nothing has happened"}))
	for name, change := range changes {
		if change.want != "" {
			g.Expect(fs[name].state().phase).To(Equal(change.want), name)
		}
	}
	g.Expect(d.requests(t)).To(HaveLen(1))
}

// A thousand functions in one call, and a call that finds all of them ready; the times are for the reader.
func TestEnsureWorkersAThousandAtOnce(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	g := NewWithT(t)
	const functions = 1000
	d.exec(t, `insert into pgflow.worker_functions (function_name) select 'function-' || n from generate_series(1, $1::int) n`, functions)
	d.exec(t, `analyze pgflow.worker_functions`)
	timed := func(what string) int {
		began := time.Now()
		n := len(ensure(t, d.pool))
		t.Logf("%s: %s", what, time.Since(began).Round(time.Millisecond))
		return n
	}
	g.Expect(timed("1,000 starts")).To(Equal(functions))
	g.Expect(d.text(t, `select count(distinct headers ->> 'X-Pgflow-Invocation-Id') from net.http_request_queue`)).To(Equal(fmt.Sprint(functions)))
	g.Expect(timed("1,000 pending")).To(BeZero())
	d.exec(t, `update pgflow.worker_functions set last_invoked_at = now() - interval '1 day', invocation_expires_at = now() - interval '1 s'`)
	g.Expect(timed("1,000 expired, started again")).To(Equal(functions))
	d.exec(t, `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id)
		select 'q', gen_random_uuid(), function_name, invocation_id from pgflow.worker_functions`)
	g.Expect(timed("1,000 ready")).To(BeZero())
	g.Expect(d.text(t, `select count(*) from net.http_request_queue`)).To(Equal(fmt.Sprint(2 * functions)))
}
