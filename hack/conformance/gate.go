package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// gate is a transaction that holds a lock which every step of a start needs: first that of the function's registration.
// Who waits there has a lock on the table already. The next gate queues for the table as a whole: it gets it when those
// have ended their statement, and before any other statement of theirs.
type gate struct {
	kit  *kit
	conn *pgxpool.Conn
	tx   pgx.Tx
	pid  uint32
}

// waiter is a session that waits at a gate.
type waiter struct {
	PID       uint32
	Statement string  // empty where the role may not see it
	Since     float64 // in seconds since 1970, on the database's clock
}

// gate returns a gate that is not held yet.
func (k *kit) gate(ctx context.Context) (*gate, error) {
	conn, err := k.pool.Acquire(ctx)
	if err != nil {
		return nil, pgstate.TranslateError("hold the registration", err)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		conn.Release()
		return nil, pgstate.TranslateError("hold the registration", err)
	}
	return &gate{kit: k, conn: conn, tx: tx, pid: conn.Conn().PgConn().PID()}, nil
}

// hold returns when this gate has the lock.
func (g *gate) hold(ctx context.Context) error {
	_, err := g.tx.Exec(ctx, holdSQL, g.kit.function)
	return pgstate.TranslateError("hold the registration", err)
}

// queue returns when this gate has the lock of the table, after all who came before.
func (g *gate) queue(ctx context.Context) error {
	_, err := g.tx.Exec(ctx, queueSQL)
	return pgstate.TranslateError("hold the registrations", err)
}

// open lets go of the lock and keeps what was done under it.
func (g *gate) open(ctx context.Context) error {
	defer g.conn.Release()
	return pgstate.TranslateError("let go of the registration", g.tx.Commit(ctx))
}

// abandon lets go of the lock if that was not done yet.
func (g *gate) abandon(ctx context.Context) {
	if err := g.tx.Rollback(context.WithoutCancel(ctx)); !errors.Is(err, pgx.ErrTxClosed) {
		g.conn.Release()
	}
}

// waiters returns who waits at this gate.
func (g *gate) waiters(ctx context.Context) ([]waiter, error) {
	return g.kit.waitersFor(ctx, g.pid)
}

// waitersFor returns who waits for a session.
func (k *kit) waitersFor(ctx context.Context, pid uint32) ([]waiter, error) {
	rows, err := k.pool.Query(ctx, waitingSQL, pid)
	if err != nil {
		return nil, pgstate.TranslateError("see who waits", err)
	}
	waiters, err := pgx.CollectRows(rows, pgx.RowToStructByPos[waiter])
	return waiters, pgstate.TranslateError("see who waits", err)
}

// awaitWaiters returns when n sessions wait at this gate.
func (g *gate) awaitWaiters(ctx context.Context, n int) ([]waiter, error) {
	return g.kit.awaitWaitersFor(ctx, g.pid, n)
}

func (k *kit) awaitWaitersFor(ctx context.Context, pid uint32, n int) ([]waiter, error) {
	var waiters []waiter
	err := k.until(ctx, func() (holds bool, err error) {
		waiters, err = k.waitersFor(ctx, pid)
		return len(waiters) >= n, err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for %d of the worker's statements on the registration: %w", n, err)
	}
	return waiters, nil
}

// pass lets those through who wait at this gate, and returns a gate that holds the lock after them.
func (g *gate) pass(ctx context.Context) (*gate, error) {
	return g.kit.gateAfter(ctx, g.pid, func() error { return g.open(ctx) })
}

// gateAfter returns a gate that holds the lock of the table after a session and those who wait for it. Once the gate is
// queued, proceed lets them go on.
func (k *kit) gateAfter(ctx context.Context, pid uint32, proceed func() error) (*gate, error) {
	next, err := k.gate(ctx)
	if err != nil {
		return nil, err
	}
	queued := make(chan error, 1)
	go func() { queued <- next.queue(ctx) }()
	err = k.until(ctx, func() (bool, error) {
		if len(queued) > 0 { // nobody was in front of it
			return true, nil
		}
		waiters, err := k.waitersFor(ctx, pid)
		return slices.ContainsFunc(waiters, func(w waiter) bool { return w.PID == next.pid }), err
	})
	if err == nil {
		err = proceed()
	}
	if err = errors.Join(err, <-queued); err != nil {
		next.abandon(ctx)
		return nil, err
	}
	return next, nil
}
