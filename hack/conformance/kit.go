package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

const (
	// setupTimeout bounds what is done before and after the cases.
	setupTimeout = 15 * time.Second
	// soon and seldom are the pauses between looking whether something has happened, at first and in the end.
	soon   = 5 * time.Millisecond
	seldom = 100 * time.Millisecond
	// notices is how long the loop of an ended worker is given to notice, if its heartbeats are quick; they may be 5 s
	// apart, and a runtime must cope with a loop that has not noticed.
	notices = 400 * time.Millisecond
	// lockTimeoutOfKit bounds each of the kit's own waits for a lock.
	lockTimeoutOfKit = "5s"
	// connections: the session, the two gates of a case, and the statements beside them.
	connections = 6
)

// kit is one run against one function.
type kit struct {
	options
	pool *pgxpool.Pool
	// session holds what lasts as long as the run: the lock, and the triggers with their functions.
	session *pgxpool.Conn
	store   *pgstate.Store
	// saved is the registration as it was, as JSON; empty: there was none.
	saved string
	// before are the workers that were there.
	before []uuid.UUID
}

// run drives the worker through the cases. An error means that they could not be run, or that the database could not be
// restored; whatever happens, restoring is tried.
func run(ctx context.Context, o options, cases []testCase) (r report, err error) {
	begun := time.Now()
	k, err := newKit(ctx, o)
	if err != nil {
		return report{}, err
	}
	defer k.close()
	defer func() {
		ctx, cancel := bounded(context.WithoutCancel(ctx), setupTimeout, "restoring the database")
		defer cancel()
		err = errors.Join(err, k.restore(ctx))
	}()
	var results []result
	for _, c := range cases {
		if err := context.Cause(ctx); err != nil {
			return report{}, fmt.Errorf("interrupted: %w", err)
		}
		results = append(results, k.try(ctx, c))
	}
	return reportOf(o.function, results, time.Since(begun)), nil
}

// bounded returns a context whose error names what the deadline was for.
func bounded(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s: not done within the deadline of %v", what, d))
}

// newKit connects, refuses what the kit must not touch, and saves what it will change.
func newKit(ctx context.Context, o options) (*kit, error) {
	ctx, cancel := bounded(ctx, setupTimeout, "preparing")
	defer cancel()
	config, err := pgxpool.ParseConfig(o.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("--database-url: %w", err)
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["application_name"] = "pgflow-conformance"
	config.ConnConfig.RuntimeParams["lock_timeout"] = lockTimeoutOfKit
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, pgstate.TranslateError("connect", err)
	}
	session, err := pool.Acquire(ctx)
	if err != nil {
		pool.Close()
		return nil, pgstate.TranslateError("connect", err)
	}
	k := &kit{options: o, pool: pool, session: session, store: pgstate.NewStore(pool), before: []uuid.UUID{}}
	if err := k.claim(ctx); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *kit) close() {
	k.session.Release()
	k.pool.Close()
}

// claim makes sure that nobody else uses the function, and saves what is there.
func (k *kit) claim(ctx context.Context) error {
	var alone bool
	if err := k.session.QueryRow(ctx, lockRunSQL, k.function).Scan(&alone); err != nil {
		return pgstate.TranslateError("lock the function for this run", err)
	}
	if !alone {
		return fmt.Errorf("another run of the kit is at work on %q", k.function)
	}
	return k.save(ctx)
}

func (k *kit) save(ctx context.Context) error {
	snapshot, err := k.store.StatesOf(ctx, []string{k.function})
	if err != nil {
		return err
	}
	for _, s := range snapshot.States {
		switch {
		case k.force:
		case s.ReadyWorker != nil:
			return fmt.Errorf("%q has a healthy worker, %s, which the cases would end; stop it first, or give --force",
				k.function, s.ReadyWorker.ID)
		case s.Phase == pgstate.PhasePending:
			return fmt.Errorf("%q has a pending invocation, %s: somebody is starting it; wait, or give --force",
				k.function, s.Invocation.ID)
		}
	}
	workers, err := k.readWorkers(ctx, k.function)
	if err != nil {
		return err
	}
	for _, w := range workers {
		k.before = append(k.before, w.ID)
	}
	err = k.pool.QueryRow(ctx, savedSQL, k.function).Scan(&k.saved)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return pgstate.TranslateError("read the registration", err)
}

// restore brings the database back to what save found.
func (k *kit) restore(ctx context.Context) error {
	return errors.Join(k.withdraw(ctx), k.endWorkers(ctx), k.restoreRows(ctx))
}

func (k *kit) restoreRows(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, removeRegistrationSQL, k.function); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, deleteSQL, k.function, k.before); err != nil {
			return err
		}
		if k.saved == "" {
			return nil
		}
		_, err := tx.Exec(ctx, restoreSQL, k.saved)
		return err
	})
	return pgstate.TranslateError("restore the registration", err)
}

// prepare makes the function one that has never been started.
func (k *kit) prepare(ctx context.Context) error {
	if err := k.endWorkers(ctx); err != nil {
		return err
	}
	if err := k.exec(ctx, resetSQL, k.function); err != nil {
		return err
	}
	return k.setMode(ctx, "http")
}

// setMode sets the start mode, where this pgflow has one.
func (k *kit) setMode(ctx context.Context, mode string) error {
	_, err := k.store.UpdateRegistration(ctx, k.function, pgstate.Registration{StartMode: &mode})
	if errors.Is(err, pgstate.ErrNoStartMode) && mode == "http" {
		return nil
	}
	return err
}

// endWorkers deprecates the function's workers and gives their loops the time to notice.
func (k *kit) endWorkers(ctx context.Context) error {
	if err := k.exec(ctx, deprecateSQL, k.function); err != nil {
		return err
	}
	noticing, cancel := context.WithTimeout(ctx, notices)
	defer cancel()
	err := k.until(noticing, func() (bool, error) {
		workers, err := k.readWorkers(ctx, k.function)
		return !slices.ContainsFunc(workers, func(w worker) bool { return w.Ending }), err
	})
	if noticing.Err() != nil && ctx.Err() == nil {
		return nil // it has not noticed; a runtime must cope with that
	}
	return err
}

// worker is a row of the function.
type worker struct {
	ID         uuid.UUID
	Invocation *uuid.UUID
	Live       bool    // neither stopped nor deprecated
	Beat       float64 // seconds since 1970, on the database's clock
	Ending     bool    // deprecated a moment ago, with no heartbeat since
}

func (k *kit) readWorkers(ctx context.Context, function string) ([]worker, error) {
	rows, err := k.pool.Query(ctx, workersSQL, function)
	if err != nil {
		return nil, pgstate.TranslateError("read the workers", err)
	}
	workers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[worker])
	return workers, pgstate.TranslateError("read the workers", err)
}

func (k *kit) exec(ctx context.Context, sql string, args ...any) error {
	_, err := k.pool.Exec(ctx, sql, args...)
	return pgstate.TranslateError("change the state", err)
}

// until returns nil when the condition holds, or the context's cause. It looks often at first.
func (k *kit) until(ctx context.Context, condition func() (bool, error)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := soon; ; pause = min(pause*3/2, seldom) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if holds, err := condition(); err != nil || holds {
			return err
		}
		timer.Reset(pause)
	}
}
