package pgstate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// What an error of this package is, found with errors.Is. The cause stays in
// the chain.
var (
	// ErrSchemaMissing: a schema, view, function or column of ours is missing; run migrate.
	ErrSchemaMissing = errors.New("the handshake is not installed in this database, or an older version of it: run `manager migrate`")
	// ErrLockTimeout: a lock was not to be had in time; nothing was done, ask again.
	ErrLockTimeout = errors.New("lock not available in time")
	// ErrReadOnly: the server or the session takes no writes.
	ErrReadOnly = errors.New("the database is read-only")
	// ErrPermission: the role lacks a privilege.
	ErrPermission = errors.New("the database role lacks a privilege")
	// ErrAuthentication: the server refused the user or the password.
	ErrAuthentication = errors.New("the database refused the credentials")
	// ErrUnavailable: the server cannot be reached, is starting or stopping, or has no room.
	ErrUnavailable = errors.New("the database is unavailable")
	// ErrIsolation: the operation was called outside READ COMMITTED.
	ErrIsolation = errors.New("the handshake's operations need READ COMMITTED")
	// ErrNoStartMode: this pgflow has no start mode, so none can be written.
	ErrNoStartMode = errors.New("this version of pgflow has no start_mode: upgrade pgflow or leave the start mode unset")
	// ErrPgflowMissing: there is no pgflow in this database.
	ErrPgflowMissing = errors.New("pgflow is not installed in this database: install it first (for a trial, `manager migrate --create-base-tables` creates its two tables)")
	// ErrPgNetMissing: there is no pg_net for the SQL path to send with.
	ErrPgNetMissing = errors.New("pg_net is not installed in this database: create it first, or migrate without --with-pg-net (the operator needs no pg_net)")
)

// RefusedError: the database refused to let a worker register.
type RefusedError struct {
	// Reason is the contract's word for it.
	Reason string
	cause  error
}

// Error says that a registration was refused, and why.
func (e *RefusedError) Error() string { return "worker refused: " + e.Reason }

// Unwrap returns the database's error.
func (e *RefusedError) Unwrap() error { return e.cause }

// ConflictError: the database holds objects that are not ours under names
// that migrating needs; nothing was changed.
type ConflictError struct {
	// Objects names them.
	Objects []string
	cause   error
}

// Error names the objects that are in the way.
func (e *ConflictError) Error() string {
	return "objects that are not pgflow-operator's are in the way: " + strings.Join(e.Objects, ", ")
}

// Unwrap returns the database's error.
func (e *ConflictError) Unwrap() error { return e.cause }

// TranslateError turns a driver's error into this package's, prefixed with
// what was being done. Nil stays nil. It is the only place that looks at
// SQLSTATEs.
func TranslateError(operation string, err error) error {
	if err == nil {
		return nil
	}
	if sentinel := classify(err); sentinel != nil {
		return fmt.Errorf("%s: %w: %w", operation, sentinel, err)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case codeRefused:
			return fmt.Errorf("%s: %w", operation, &RefusedError{Reason: pg.Detail, cause: err})
		case codeConflict:
			return fmt.Errorf("%s: %w", operation, &ConflictError{Objects: strings.Split(pg.Detail, "\n"), cause: err})
		}
	}
	return fmt.Errorf("%s: %w", operation, err)
}

// Our own SQLSTATEs.
const (
	codeRefused       = "PF001"
	codePgflowMissing = "PF100"
	codeConflict      = "PF101"
	codePgNetMissing  = "PF102"
)

// classify returns the sentinel that err is, or nil.
func classify(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyCode(pg.Code)
	}
	// A caller that gave up says nothing about the database.
	if errors.Is(err, context.Canceled) {
		return nil
	}
	var connect *pgconn.ConnectError
	var network net.Error
	switch {
	case errors.As(err, &connect), errors.Is(err, errLockLost),
		errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return ErrUnavailable
	}
	return nil
}

// classifyCode returns the sentinel for a SQLSTATE, or nil.
func classifyCode(code string) error {
	switch code {
	case "3F000", // schema
		"42P01", // table or view
		"42703", // column
		"42883": // function
		return ErrSchemaMissing
	case "55P03", // lock_timeout
		"40P01": // deadlock, which PostgreSQL ended by choosing us
		return ErrLockTimeout
	case "25006":
		return ErrReadOnly
	case "42501":
		return ErrPermission
	case "25001":
		return ErrIsolation
	case codePgflowMissing:
		return ErrPgflowMissing
	case codePgNetMissing:
		return ErrPgNetMissing
	case "53300", // too many connections
		"3D000": // no such database (yet)
		return ErrUnavailable
	}
	switch {
	case strings.HasPrefix(code, "28"):
		return ErrAuthentication
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "57P0"):
		return ErrUnavailable
	}
	return nil
}

// translateStartMode is TranslateError for the statement that writes
// start_mode alone, where a missing column means an older pgflow.
func translateStartMode(operation string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42703" {
		return fmt.Errorf("%s: %w: %w", operation, ErrNoStartMode, err)
	}
	return TranslateError(operation, err)
}
