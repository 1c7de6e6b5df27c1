package observer

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// readTimeout bounds each read, connecting included.
const readTimeout = 10 * time.Second

// reader reads states over one connection of the pool that it keeps, so that it need not queue behind writes.
type reader struct {
	pool *pgxpool.Pool
	conn *pgxpool.Conn // nil: none yet, or it broke
}

// read does what todo says within readTimeout.
func (r *reader) read(ctx context.Context, todo *job) (pgstate.Snapshot, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readTimeout, fmt.Errorf("no answer within the read's deadline of %s", readTimeout))
	defer cancel()
	kept := r.conn != nil
	snapshot, err := r.attempt(ctx, todo)
	if err != nil && kept && r.conn == nil && ctx.Err() == nil {
		// The connection may have broken long ago: that says nothing about the database now.
		snapshot, err = r.attempt(ctx, todo)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return snapshot, err
}

func (r *reader) attempt(ctx context.Context, todo *job) (snapshot pgstate.Snapshot, err error) {
	if r.conn == nil {
		if r.conn, err = r.pool.Acquire(ctx); err != nil {
			r.conn = nil
			return snapshot, pgstate.TranslateError("connect", err)
		}
	}
	snapshot, err = pgstate.NewStore(r.conn).StatesOf(ctx, todo.functions)
	if r.conn.Conn().IsClosed() {
		r.release()
	}
	return snapshot, err
}

// release gives the connection back, if there is one.
func (r *reader) release() {
	if r.conn != nil {
		r.conn.Release()
		r.conn = nil
	}
}
