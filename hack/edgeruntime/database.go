package edgeruntime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// statementTimeout bounds each statement, waiting for a connection of the pool included. It is long because a
	// thousand starts may queue for a handful of connections.
	statementTimeout = 60 * time.Second
	// attempts of an operation whose answer was lost or that met a lock timeout; pause between two of them.
	attempts = 5
	pause    = 200 * time.Millisecond
)

// database is what runtimes share: the statements of the contract and of the published workers.
type database struct {
	pool *pgxpool.Pool
}

// receipt is the answer of receive_invocation and accept_invocation.
type receipt struct {
	verdict string
	reason  string
	ready   uuid.UUID // uuid.Nil: none
}

// reservation is the answer of reserve_invocation.
type reservation struct {
	decision   string
	invocation uuid.UUID // uuid.Nil: none
	ready      uuid.UUID // uuid.Nil: none
}

func openDatabase(url string, size int32) (*database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns = size
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "edgeruntime"
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("database pool: %w", err)
	}
	return &database{pool: pool}, nil
}

// one runs a statement that returns one row within statementTimeout. The error names the operation and, when that is
// what it was, the deadline.
func (d *database) one(ctx context.Context, what, sql string, args []any, into ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, statementTimeout,
		fmt.Errorf("no answer within the statement deadline of %v", statementTimeout))
	defer cancel()
	if err := d.pool.QueryRow(ctx, sql, args...).Scan(into...); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// again repeats an idempotent operation whose answer was lost or that ran into a lock timeout, as the contract asks
// of those who lost an answer.
func again(ctx context.Context, operation func() error) error {
	var err error
	for range attempts {
		if err = operation(); err == nil || !worthAsking(err) {
			return err
		}
		if sleep(ctx, pause) != nil {
			return err
		}
	}
	return err
}

// worthAsking: a lock timeout or a server that goes down, and whatever is not the database's own answer.
func worthAsking(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return true
	}
	return pgErr.Code == "55P03" || pgErr.Code[:2] == "57" || pgErr.Code[:2] == "08"
}

func (d *database) receive(ctx context.Context, function string, id, worker uuid.UUID) (receipt, error) {
	return d.receipt(ctx, "receive_invocation", receiveInvocationSQL, function, id, nullable(worker))
}

func (d *database) accept(ctx context.Context, function string, id, worker uuid.UUID, queue string) (receipt, error) {
	return d.receipt(ctx, "accept_invocation", acceptInvocationSQL, function, id, worker, queue)
}

func (d *database) receipt(ctx context.Context, what, sql string, args ...any) (receipt, error) {
	var (
		r      receipt
		reason *string
		ready  *uuid.UUID
	)
	err := again(ctx, func() error { return d.one(ctx, what, sql, args, &r.verdict, &reason, &ready) })
	r.reason, r.ready = orZero(reason), orZero(ready)
	return r, err
}

func (d *database) reserve(ctx context.Context, function string) (reservation, error) {
	var (
		r         reservation
		id, ready *uuid.UUID
	)
	// A lost answer is asked for again too; it then reads `pending`, which is right: nobody knows that it was ours.
	err := again(ctx, func() error {
		return d.one(ctx, "reserve_invocation", reserveInvocationSQL, []any{function}, &r.decision, &id, &ready)
	})
	r.invocation, r.ready = orZero(id), orZero(ready)
	return r, err
}

func (d *database) dismiss(ctx context.Context, function string, id uuid.UUID, reason string) error {
	return again(ctx, func() error {
		return d.one(ctx, "dismiss_invocation", dismissInvocationSQL, []any{function, id, reason}, new(bool))
	})
}

// exec runs a statement for its effect, once, within statementTimeout.
func (d *database) exec(ctx context.Context, what, sql string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, statementTimeout,
		fmt.Errorf("no answer within the statement deadline of %v", statementTimeout))
	defer cancel()
	if _, err := d.pool.Exec(ctx, sql, args...); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (d *database) markStopped(ctx context.Context, worker uuid.UUID) error {
	return again(ctx, func() error { return d.exec(ctx, "mark_worker_stopped", markStoppedSQL, worker) })
}

// heartbeat reports whether the worker's row exists and whether it is deprecated.
func (d *database) heartbeat(ctx context.Context, worker uuid.UUID) (found, deprecated bool, err error) {
	err = d.one(ctx, "heartbeat", heartbeatSQL, []any{worker}, &deprecated)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, false, nil
	}
	return err == nil, deprecated, err
}

// heartbeats beats for many workers and returns those whose rows exist, with whether they are deprecated.
func (d *database) heartbeats(ctx context.Context, workers []uuid.UUID) (map[uuid.UUID]bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statementTimeout,
		fmt.Errorf("no answer within the statement deadline of %v", statementTimeout))
	defer cancel()
	rows, err := d.pool.Query(ctx, heartbeatManySQL, workers) //nolint:rowserrcheck // ForEachRow does
	if err != nil {
		return nil, fmt.Errorf("heartbeats: %w", err)
	}
	found := make(map[uuid.UUID]bool, len(workers))
	var (
		id         uuid.UUID
		deprecated bool
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &deprecated}, func() error {
		found[id] = deprecated
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("heartbeats: %w", err)
	}
	return found, nil
}

func nullable(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}

func orZero[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// sleep returns nil after d, or the context's cause when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
