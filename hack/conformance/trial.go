package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// testCase is one thing that a worker can get wrong.
type testCase struct {
	name  string
	about string
	run   func(*trial)
}

// trial is one case at work. Its first error sticks: what comes after it does nothing and returns zero values, so that
// cases read as what they do. What the worker gets wrong is no error but a check that did not pass.
type trial struct {
	*kit
	ctx    context.Context //nolint:containedctx // the case's deadline, for every step of the case
	err    error
	checks []check
	// known are the rows that were there, or that the kit put there.
	known   []uuid.UUID
	gates   []*gate
	undo    []func(context.Context) error
	posting sync.WaitGroup
}

// try runs a case on a function that has never been started.
func (k *kit) try(ctx context.Context, c testCase) result {
	begun := time.Now()
	ctx, cancel := bounded(ctx, k.timeout, "case "+c.name)
	t := &trial{kit: k, ctx: ctx}
	t.step(func() error { return k.prepare(ctx) })
	for _, w := range t.workers(k.function) {
		t.known = append(t.known, w.ID)
	}
	if t.err == nil {
		c.run(t)
	}
	for _, g := range t.gates {
		g.abandon(ctx)
	}
	cancel() // ends requests that are still unanswered
	t.posting.Wait()
	ctx, cancel = bounded(context.WithoutCancel(ctx), setupTimeout, "undoing case "+c.name)
	defer cancel()
	for _, undo := range t.undo {
		t.err = errors.Join(t.err, undo(ctx))
	}
	return t.result(c, time.Since(begun))
}

func (t *trial) result(c testCase, took time.Duration) result {
	r := result{Case: c.name, About: c.about, Outcome: passed, Checks: t.checks, Seconds: seconds(took)}
	reason, skips := errors.AsType[*skip](t.err)
	switch {
	case slices.ContainsFunc(t.checks, func(k check) bool { return !k.Passed }):
		r.Outcome = failed
	case skips:
		r.Outcome, r.Reason = skipped, reason.reason
		return r
	}
	if t.err != nil {
		r.Outcome, r.Reason = failed, t.err.Error()
	}
	return r
}

// step does something unless an error sticks.
func (t *trial) step(do func() error) {
	if t.err == nil {
		t.err = do()
	}
}

// expect is a check. Nothing is checked once an error sticks.
func (t *trial) expect(what, expected, seen string) {
	if t.err == nil {
		t.checks = append(t.checks, check{What: what, Expected: expected, Seen: seen, Passed: expected == seen})
	}
}

// failedAlready says that a check did not pass, where what follows would only show consequences.
func (t *trial) failedAlready() bool {
	return t.err != nil || slices.ContainsFunc(t.checks, func(k check) bool { return !k.Passed })
}

func (t *trial) exec(sql string, args ...any) {
	t.step(func() error { return t.kit.exec(t.ctx, sql, args...) })
}

// reserve returns a new invocation of the function, which closes a current one that has expired.
func (t *trial) reserve() uuid.UUID { return t.reserveIn(t.function, t.pool) }

func (t *trial) reserveIn(function string, db pgstate.Querier) (id uuid.UUID) {
	t.step(func() error {
		if _, err := db.Exec(t.ctx, dueSQL, function); err != nil {
			return pgstate.TranslateError("reserve", err)
		}
		r, err := pgstate.NewStore(db).Reserve(t.ctx, function)
		switch {
		case err != nil || r.Decision == pgstate.DecisionReserved:
		case t.failedAlready():
			err = fmt.Errorf("after that the rest cannot be tried: the function is %s", r.Decision)
		default:
			err = fmt.Errorf("reserving %q: %s; does anybody else start it?", function, r.Decision)
		}
		id = r.InvocationID
		return err
	})
	return id
}

// reserveBeside returns a new invocation that is current although the function has a healthy worker.
func (t *trial) reserveBeside() (id uuid.UUID) {
	t.step(func() error {
		return pgx.BeginFunc(t.ctx, t.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.ctx, ageSQL, t.function); err != nil {
				return err
			}
			if id = t.reserveIn(t.function, tx); t.err != nil {
				return t.err
			}
			_, err := tx.Exec(t.ctx, rejuvenateSQL, t.function)
			return err
		})
	})
	return id
}

func (t *trial) expire(id uuid.UUID) { t.exec(expireSQL, t.function, id) }

// post sends a request to a runtime and returns its answer.
func (t *trial) post(runtime int, special headers) answer {
	if t.err != nil {
		return answer{}
	}
	return post(t.ctx, t.endpoints[runtime], t.function, t.key, special, nil)
}

// sent is a request that is under way.
type sent struct {
	written  chan struct{}
	answered chan answer
	cut      context.CancelFunc
}

// send sends a request in the background.
func (t *trial) send(runtime int, special headers) *sent {
	ctx, cut := context.WithCancel(t.ctx)
	s := &sent{written: make(chan struct{}), answered: make(chan answer, 1), cut: cut}
	var once sync.Once
	written := func() { once.Do(func() { close(s.written) }) }
	t.posting.Go(func() {
		defer cut()
		defer written()
		s.answered <- post(ctx, t.endpoints[runtime], t.function, t.key, special, written)
	})
	return s
}

// answerOf waits for the answer of a request.
func (t *trial) answerOf(s *sent) (a answer) {
	t.step(func() error {
		select {
		case a = <-s.answered:
			return nil
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	})
	return a
}

// workers are the rows of a function.
func (t *trial) workers(function string) (workers []worker) {
	t.step(func() (err error) {
		workers, err = t.readWorkers(t.ctx, function)
		return err
	})
	return workers
}

// started are the rows that the worker under test has inserted since the case began, or since ended.
func (t *trial) started() []worker {
	return slices.DeleteFunc(t.workers(t.function), func(w worker) bool { return slices.Contains(t.known, w.ID) })
}

// end ends the worker by a statement on its row; those started later are counted apart.
func (t *trial) end(sql string, args ...any) {
	for _, w := range t.started() {
		t.known = append(t.known, w.ID)
	}
	t.exec(sql, append([]any{t.function}, args...)...)
}

// endWithLoop ends the worker and gives its loop the time to notice: what comes next would hit its statements too.
func (t *trial) endWithLoop() {
	t.end(deprecateSQL)
	t.step(func() error { return t.endWorkers(t.ctx) })
}

// current describes the registration's current invocation, as "none" or by the name that id has in names.
func (t *trial) current(function string, names map[uuid.UUID]string) (description string) {
	t.step(func() error {
		var (
			id      *uuid.UUID
			pending *bool
			ended   string
			reason  string
		)
		if err := t.pool.QueryRow(t.ctx, currentSQL, function).Scan(&id, &pending, &ended, &reason); err != nil {
			return pgstate.TranslateError("read the registration", err)
		}
		if reason != "" {
			ended += ", with a reason"
		}
		switch {
		case id == nil && ended == "":
			description = "none"
		case id == nil:
			description = "none, the last was " + ended
		case !*pending:
			description = "expired"
		case names[*id] == "":
			description = "another"
		default:
			description = names[*id]
		}
		return nil
	})
	return description
}

// accepted checks that a request with an id was answered as the start of one worker, the only one that lives.
func (t *trial) accepted(label string, a answer, id uuid.UUID) {
	t.expect(label, "200 started accepted", a.String())
	t.admitted(a, id)
}

// acknowledged checks that a request was answered with the worker that is there.
func (t *trial) acknowledged(label string, a answer, worker string) {
	t.expect(label, "200 running acknowledged", a.String())
	t.expect("worker it names", worker, a.WorkerID)
}

// admitted checks that the worker that an answer names lives, alone, and was admitted with the id.
func (t *trial) admitted(a answer, id uuid.UUID) {
	var rows []string
	for _, w := range t.started() {
		if !w.Live {
			continue
		}
		row := "the one it names"
		if w.ID.String() != a.WorkerID {
			row = "another than it names"
		}
		switch {
		case w.Invocation == nil:
			row += ", without invocation"
		case id != uuid.Nil && *w.Invocation != id:
			row += ", of another invocation"
		}
		rows = append(rows, row)
	}
	t.expect("workers", "the one it names", orNone(rows))
}

// untouched checks that nothing was started and that the named invocation is still the current one.
func (t *trial) untouched(pending uuid.UUID) {
	expected := "still pending"
	if pending == uuid.Nil {
		expected = "none"
	}
	t.expect("current invocation", expected, t.current(t.function, map[uuid.UUID]string{pending: "still pending"}))
	t.expect("workers started", "0", fmt.Sprint(len(t.started())))
}

// serves checks that a runtime serves a later id. A start that fails is dismissed and may be tried again.
func (t *trial) serves(runtime int, label string) answer {
	var (
		a  answer
		id uuid.UUID
	)
	for range 3 {
		id = t.reserve()
		a = t.post(runtime, withID(id))
		if a.Code != 500 || !strings.HasPrefix(t.current(t.function, nil), "none, the last was dismissed") {
			break
		}
	}
	t.accepted(label, a, id)
	return a
}

// beats checks that a worker's loop runs.
func (t *trial) beats(workerID string) {
	beat := func() (last float64) {
		for _, w := range t.workers(t.function) {
			if w.ID.String() == workerID {
				last = w.Beat
			}
		}
		return last
	}
	first := beat()
	seen := "beats"
	err := t.until(t.ctx, func() (bool, error) { return beat() > first, t.err })
	if errors.Is(t.ctx.Err(), context.DeadlineExceeded) {
		seen, t.err = fmt.Sprintf("no heartbeat within %v", t.timeout), nil
	} else {
		t.step(func() error { return err })
	}
	t.expect("its loop", "beats", seen)
}

// held sends requests with send, which the worker receives one after the other, and returns a gate that holds the lock
// since then: each request that waited for the lock has its verdict, and no worker can be admitted.
func (t *trial) held(n int, send func() []*sent) (*gate, []*sent) {
	g := t.newGate()
	t.step(func() error { return g.hold(t.ctx) })
	if t.err != nil {
		return nil, nil
	}
	requests := send()
	t.step(func() error {
		for _, s := range requests {
			select {
			case <-s.written:
			case <-t.ctx.Done():
				return context.Cause(t.ctx)
			}
		}
		_, err := g.awaitWaiters(t.ctx, n)
		return err
	})
	return t.pass(g), requests
}

func (t *trial) newGate() (g *gate) {
	t.step(func() (err error) {
		if g, err = t.gate(t.ctx); err == nil {
			t.gates = append(t.gates, g)
		}
		return err
	})
	return g
}

func (t *trial) pass(g *gate) (next *gate) {
	t.step(func() (err error) {
		if next, err = g.pass(t.ctx); err == nil {
			t.gates = append(t.gates, next)
		}
		return err
	})
	return next
}

func (t *trial) open(g *gate) { t.step(func() error { return g.open(t.ctx) }) }

func orNone(rows []string) string {
	if len(rows) == 0 {
		return "none"
	}
	return strings.Join(rows, " + ")
}
