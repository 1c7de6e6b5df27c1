package pgstate

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Querier is where a Store sends its statements: *pgxpool.Pool, *pgx.Conn and
// pgx.Tx are Queriers.
type Querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Store calls the operations of the handshake and reads and writes
// registrations. It keeps no state, so it is as safe for concurrent use as its
// Querier. The caller's context bounds every call. Errors begin with the
// operation's name and are the package's sentinels where one fits.
type Store struct {
	db Querier
}

// NewStore returns a Store that sends its statements to db.
func NewStore(db Querier) *Store {
	return &Store{db: db}
}

// Reserve asks for the right to start a worker. Only the caller that gets
// DecisionReserved sends the invocation.
func (s *Store) Reserve(ctx context.Context, function string) (Reservation, error) {
	var (
		r                    Reservation
		id, ready            pgtype.UUID
		expires, left, retry pgtype.Int8
	)
	err := s.db.QueryRow(ctx, reserveSQL, function).
		Scan(&r.Decision, &id, &expires, &left, &retry, &ready)
	if err != nil {
		return Reservation{}, TranslateError("reserve", err)
	}
	r.InvocationID, r.ReadyWorkerID = uuid.UUID(id.Bytes), uuid.UUID(ready.Bytes)
	r.ExpiresAt, r.RetryAt = instant(expires), instant(retry)
	r.ExpiresIn = duration(left)
	return r, nil
}

// Receive tells that a runtime received an invocation and asks what to do.
// Worker names the worker whose loop runs in this runtime; uuid.Nil: none.
func (s *Store) Receive(ctx context.Context, function string, id, worker uuid.UUID) (Receipt, error) {
	var (
		r       Receipt
		reason  pgtype.Text
		ready   pgtype.UUID
		expires pgtype.Int8
	)
	err := s.db.QueryRow(ctx, receiveSQL, function, nullable(id), nullable(worker)).
		Scan(&r.Verdict, &reason, &ready, &expires)
	if err != nil {
		return Receipt{}, TranslateError("receive", err)
	}
	r.Reason, r.ReadyWorkerID, r.ExpiresAt = reason.String, uuid.UUID(ready.Bytes), instant(expires)
	return r, nil
}

// Accept admits a worker with an invocation, once its initialisation is done
// and before its loop begins.
func (s *Store) Accept(ctx context.Context, function string, id, worker uuid.UUID, queue string) (Receipt, error) {
	var (
		r      Receipt
		reason pgtype.Text
		ready  pgtype.UUID
	)
	err := s.db.QueryRow(ctx, acceptSQL, function, nullable(id), nullable(worker), queue).
		Scan(&r.Verdict, &reason, &ready)
	if err != nil {
		return Receipt{}, TranslateError("accept", err)
	}
	r.Reason, r.ReadyWorkerID = reason.String, uuid.UUID(ready.Bytes)
	return r, nil
}

// Dismiss ends the current invocation because it was refused. True: this call
// ended it. False: it is not the current one, has expired, or was ended before.
func (s *Store) Dismiss(ctx context.Context, function string, id uuid.UUID, reason string) (bool, error) {
	var dismissed bool
	err := s.db.QueryRow(ctx, dismissSQL, function, nullable(id), reason).Scan(&dismissed)
	return dismissed, TranslateError("dismiss", err)
}

// ClearThrottle makes the next attempt due now. False: an invocation is
// pending or there is no such registration, and nothing was done.
func (s *Store) ClearThrottle(ctx context.Context, function string) (bool, error) {
	var cleared bool
	err := s.db.QueryRow(ctx, clearThrottleSQL, function).Scan(&cleared)
	return cleared, TranslateError("clear throttle", err)
}

// nullable maps uuid.Nil to SQL's null.
func nullable(id uuid.UUID) pgtype.UUID {
	return pgtype.UUID{Bytes: id, Valid: id != uuid.Nil}
}

// instant maps microseconds since 1970 to a time; null to the zero time.
// Statements send times so because the text of a timestamptz depends on
// settings of the role and the database, which a pooler does not let us set.
func instant(micros pgtype.Int8) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
}

// duration maps microseconds to a duration; null to zero. Statements bound the
// value to what a duration can hold.
func duration(micros pgtype.Int8) time.Duration {
	return time.Duration(micros.Int64) * time.Microsecond
}
