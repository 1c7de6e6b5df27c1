package main

import (
	"errors"
	"regexp"

	"github.com/google/uuid"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// admission is how a worker asks to be admitted: by the operation, or by inserting its row.
var admission = regexp.MustCompile(`(?i)accept_invocation|insert\s+into\s+"?pgflow"?\s*\.\s*"?workers\b`)

func lostAnswer(t *trial) {
	lostBeforeCommit(t)
	t.endWithLoop()
	if !t.failedAlready() {
		lostAfterCommit(t)
	}
}

// lostBeforeCommit ends the session in which the worker waits to be admitted.
func lostBeforeCommit(t *trial) {
	id := t.reserve()
	g, requests := t.held(1, func() []*sent { return []*sent{t.send(0, withID(id))} })
	g, asking := t.asking(g)
	t.terminate(asking.PID)
	t.open(g)
	if t.err == nil {
		t.accepted("answer after it was not admitted", t.answerOf(requests[0]), id)
	}
}

// lostAfterCommit ends the session in which the worker inserts its row, and has the row admitted all the same. That is
// what the worker would see if its own statement had been committed and only the answer lost.
func lostAfterCommit(t *trial) {
	t.undo = append(t.undo, t.letGo, t.withdraw) // who is detained holds what the withdrawal needs
	t.step(func() error { return t.detainWorkers(t.ctx) })
	id := t.reserve()
	session := t.session.Conn().PgConn().PID()
	if t.err != nil {
		return
	}
	request := t.send(0, withID(id))
	var worker uuid.UUID
	var g *gate
	t.step(func() error {
		waiters, err := t.awaitWaitersFor(t.ctx, session, 1)
		if err != nil {
			return err
		}
		inserting := waiters[0].PID
		if err := t.pool.QueryRow(t.ctx, publishedSQL, inserting).Scan(&worker); err != nil {
			return pgstate.TranslateError("see the worker's id", err)
		}
		g, err = t.gateAfter(t.ctx, inserting, func() error {
			t.terminate(inserting)
			return t.err
		})
		if err == nil {
			t.gates = append(t.gates, g)
		}
		return errors.Join(err, t.letGo(t.ctx))
	})
	t.step(func() error {
		_, err := pgstate.NewStore(g.tx).Accept(t.ctx, t.function, id, worker, t.function)
		return err
	})
	t.open(g)
	if t.err == nil {
		t.accepted("answer after it was admitted", t.answerOf(request), id)
	}
}

// asking returns the session in which the worker asks to be admitted, and the gate at which it waits: other statements of
// its start-up pass the one that is given.
func (t *trial) asking(g *gate) (at *gate, asking waiter) {
	for t.err == nil {
		var first waiter
		t.step(func() error {
			waiters, err := g.awaitWaiters(t.ctx, 1)
			if err == nil {
				first = waiters[0]
			}
			return err
		})
		switch {
		case t.err != nil:
		case first.Statement == "" || first.Statement == "<insufficient privilege>":
			t.err = &skip{"give a role in --database-url that may read other sessions' statements (pg_read_all_stats)"}
		case admission.MatchString(first.Statement):
			return g, first
		default:
			g = t.pass(g)
		}
	}
	return g, waiter{}
}

// terminate ends a session of the worker.
func (t *trial) terminate(pid uint32) {
	t.step(func() error {
		err := t.kit.exec(t.ctx, terminateSQL, pid)
		if errors.Is(err, pgstate.ErrPermission) {
			err = &skip{"give a role in --database-url that may end the worker's sessions (pg_signal_backend)"}
		}
		return err
	})
}
