package pgstate

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CreateRegistration creates a registration with the fields of r and the
// columns' defaults for the rest. False: it exists already and nothing was
// changed. Setting a start mode where pgflow has none is ErrNoStartMode.
func (s *Store) CreateRegistration(ctx context.Context, function string, r Registration) (bool, error) {
	const operation = "create registration"
	created := false
	err := s.inTx(ctx, operation, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, createRegistrationSQL, function)
		if err != nil {
			return TranslateError(operation, err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		created = true
		_, err = update(ctx, tx, operation, function, r)
		return err
	})
	return created && err == nil, err
}

// UpdateRegistration writes the fields of r that are set, all or none. False:
// nothing was written, because there is no such registration or r sets nothing.
// Setting a start mode where pgflow has none is ErrNoStartMode.
func (s *Store) UpdateRegistration(ctx context.Context, function string, r Registration) (bool, error) {
	const operation = "update registration"
	updated := false
	err := s.inTx(ctx, operation, func(tx pgx.Tx) (err error) {
		updated, err = update(ctx, tx, operation, function, r)
		return err
	})
	return updated && err == nil, err
}

// Disable switches a registration off. False: it was off already, or there is
// no such registration.
func (s *Store) Disable(ctx context.Context, function string) (bool, error) {
	tag, err := s.db.Exec(ctx, disableSQL, function)
	return tag.RowsAffected() > 0, TranslateError("disable", err)
}

// update writes the fields of r that are set. The start mode is a statement of
// its own because the column may be absent.
func update(ctx context.Context, tx pgx.Tx, operation, function string, r Registration) (bool, error) {
	updated := false
	if r.StartMode != nil {
		tag, err := updateStartMode(ctx, tx, operation, function, *r.StartMode)
		if err != nil {
			return false, err
		}
		updated = tag.RowsAffected() > 0
	}
	r.StartMode = nil
	if r == (Registration{}) {
		return updated, nil
	}
	tag, err := tx.Exec(ctx, updateRegistrationSQL, function,
		r.Enabled, micros(r.Debounce), micros(r.PendingTimeout), micros(r.HeartbeatTimeout), r.Handshake)
	if err != nil {
		return false, TranslateError(operation, err)
	}
	return tag.RowsAffected() > 0, nil
}

// updateStartMode writes the start mode. Where pgflow has none, every registration counts as http: writing that is done
// already.
func updateStartMode(ctx context.Context, tx pgx.Tx, operation, function, mode string) (tag pgconn.CommandTag, err error) {
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { // a savepoint: the failed statement must not end tx
		tag, err = tx.Exec(ctx, updateStartModeSQL, function, mode)
		return err
	})
	if err == nil {
		return tag, nil
	}
	err = translateStartMode(operation, err)
	if mode == "http" && errors.Is(err, ErrNoStartMode) {
		return pgconn.CommandTag{}, nil
	}
	return pgconn.CommandTag{}, err
}

// inTx runs f in a transaction (a savepoint where the Querier is one itself).
func (s *Store) inTx(ctx context.Context, operation string, f func(pgx.Tx) error) error {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return TranslateError(operation, err)
	}
	defer rollback(ctx, tx)
	if err := f(tx); err != nil {
		return err
	}
	return TranslateError(operation, tx.Commit(ctx))
}

// rollback ends a transaction that did not commit, also after its context has.
// Its own error says nothing new: either the transaction is over already, or
// the connection is broken and the server rolls back.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx)
}

const rollbackTimeout = 5 * time.Second

// micros returns a duration as whole microseconds, which is what PostgreSQL
// keeps; nil stays nil.
func micros(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	n := d.Microseconds()
	return &n
}
