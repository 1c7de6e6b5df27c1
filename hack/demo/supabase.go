package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// queryTimeout bounds each look at a database.
const queryTimeout = 10 * time.Second

// supabase is what matters of one Supabase: a database with pgflow in it, edge functions and the key that they expect.
type supabase struct {
	databaseURL string
	key         string
	pool        *pgxpool.Pool
	runtime     *edgeruntime.Process
	functions   *edgeruntime.Client
}

// startSupabase makes a database, installs pgflow's tables and the handshake, and starts edge functions beside it.
func (w *world) startSupabase(ctx context.Context, name string, options edgeruntime.Options) (*supabase, error) {
	databaseURL, err := w.postgres.CreateDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &supabase{databaseURL: databaseURL, key: rand.Text()}
	password, err := s.password()
	if err != nil {
		return nil, err
	}
	w.n.hide(s.key)
	w.n.hide(password)
	if err := w.manager(ctx, databaseURL, "migrate", "--create-base-tables"); err != nil {
		return nil, err
	}
	options.DatabaseURL, options.Key = databaseURL, s.key
	s.runtime, err = edgeruntime.StartProcess(ctx, w.program("edgeruntime"), options, io.Discard)
	if err != nil {
		return nil, err
	}
	w.atEnd(s.runtime.Stop)
	s.functions = s.runtime.Client()

	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", name, err)
	}
	config.MaxConns = 2
	// A pool's life is not that of the context it is made with.
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("database %s: %w", name, err)
	}
	w.atEnd(func() error { s.pool.Close(); return nil })
	return s, nil
}

// workerRow is a row of pgflow.workers.
type workerRow struct {
	ID           uuid.UUID
	InvocationID *uuid.UUID
	StartedAt    time.Time
	Live         bool // neither stopped nor deprecated, and beating
}

// workers returns all workers that a function ever had, oldest first.
func (s *supabase) workers(ctx context.Context, function string) ([]workerRow, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, fmt.Errorf("no answer within %v", queryTimeout))
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT worker_id, invocation_id, started_at,
			stopped_at IS NULL AND deprecated_at IS NULL AND last_heartbeat_at > clock_timestamp() - interval '30 seconds'
		FROM pgflow.workers WHERE function_name = $1 ORDER BY started_at`, function)
	if err != nil {
		return nil, fmt.Errorf("reading the workers of %s: %w", function, errors.Join(err, context.Cause(ctx)))
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[workerRow])
	if err != nil {
		return nil, fmt.Errorf("reading the workers of %s: %w", function, errors.Join(err, context.Cause(ctx)))
	}
	return found, nil
}

// phase returns a function's phase in the database's own words, and its pending invocation; uuid.Nil: none is pending.
func (s *supabase) phase(ctx context.Context, function string) (phase string, invocation uuid.UUID, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, fmt.Errorf("no answer within %v", queryTimeout))
	defer cancel()
	var current *uuid.UUID
	err = s.pool.QueryRow(ctx, `SELECT phase, CASE WHEN phase = 'pending' THEN invocation_id END
		FROM pgflow.worker_function_states WHERE function_name = $1`, function).Scan(&phase, &current)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", uuid.Nil, nil
	case err != nil:
		return "", uuid.Nil, fmt.Errorf("reading the phase of %s: %w", function, errors.Join(err, context.Cause(ctx)))
	case current != nil:
		invocation = *current
	}
	return phase, invocation, nil
}

// register inserts a registration as pgflow does.
func (s *supabase) register(ctx context.Context, function string, debounce time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, queryTimeout, fmt.Errorf("no answer within %v", queryTimeout))
	defer cancel()
	_, err := s.pool.Exec(ctx, `INSERT INTO pgflow.worker_functions (function_name, debounce) VALUES ($1, $2)`, function, debounce)
	if err != nil {
		return fmt.Errorf("registering %s: %w", function, errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// start is everything that came of the requests for a function since some point.
type start struct {
	requests []edgeruntime.RequestRecord
	workers  []workerRow // registered since, oldest first
	live     []workerRow // of all times
}

// since returns what came after the given request (its number in the log; 0: all) and the given number of workers.
func (s *supabase) since(ctx context.Context, function string, lastRequest int64, workers int) (start, error) {
	requests, err := s.functions.Requests(ctx, function, lastRequest)
	if err != nil {
		return start{}, err
	}
	all, err := s.workers(ctx, function)
	if err != nil {
		return start{}, err
	}
	found := start{requests: requests, workers: all[min(workers, len(all)):]}
	for _, worker := range all {
		if worker.Live {
			found.live = append(found.live, worker)
		}
	}
	return found, nil
}

// invocations returns the distinct ids that the requests carried.
func (s start) invocations() []string {
	var ids []string
	seen := map[string]bool{}
	for _, request := range s.requests {
		if !seen[request.InvocationID] {
			seen[request.InvocationID] = true
			ids = append(ids, request.InvocationID)
		}
	}
	return ids
}

// verified says whether exactly one worker registered, with the id that every request carried, and is the only live one.
func (s start) verified() bool {
	ids := s.invocations()
	return len(ids) == 1 && len(s.workers) == 1 && len(s.live) == 1 && s.live[0].ID == s.workers[0].ID &&
		s.workers[0].InvocationID != nil && s.workers[0].InvocationID.String() == ids[0]
}
