package pgstate

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/lock"
)

const (
	// migrationLock is the advisory lock that migrations hold: "pgflowop" in ASCII.
	migrationLock int64 = 0x7067666c6f776f70
	// Waiting for another migration: an index build on a large table takes minutes.
	migrationLockPeriod, migrationLockTries = 1, 900 // seconds, times
	// migrationUnlockTimeout bounds the release after the work, which may have
	// been cancelled. The lock ends with the connection anyway.
	migrationUnlockTimeout = 5 * time.Second
)

// inMigrationSession runs f with a database handle that has one connection,
// which holds the migration lock. Polling for the lock, instead of queueing,
// keeps a waiting session from being what a concurrent index build waits for.
func inMigrationSession(ctx context.Context, url string, f func(*sql.DB) error) (err error) {
	connection, err := ParseURL(url)
	if err != nil {
		return err
	}
	config, err := connection.PoolConfig()
	if err != nil {
		return err
	}
	db := sql.OpenDB(&singleConnector{Connector: stdlib.GetConnector(*config.ConnConfig)})
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()

	locker, err := lock.NewPostgresSessionLocker(
		lock.WithLockID(migrationLock), lock.WithLockTimeout(migrationLockPeriod, migrationLockTries))
	if err != nil {
		return err
	}
	if err := onConnection(ctx, db, func(conn *sql.Conn) error {
		if _, err := conn.ExecContext(ctx, sessionSQL); err != nil {
			return err
		}
		if err := locker.SessionLock(ctx, conn); err != nil {
			return fmt.Errorf("wait for another migration to end: %w", err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := f(db); err != nil {
		return err // closing the connection gives the lock back
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationUnlockTimeout)
	defer cancel()
	return onConnection(ctx, db, func(conn *sql.Conn) error { return locker.SessionUnlock(ctx, conn) })
}

// onConnection runs f with the handle's one connection, and gives it back.
func onConnection(ctx context.Context, db *sql.DB, f func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(conn), conn.Close())
}

// singleConnector connects once. database/sql replaces a broken connection
// silently, and the lock would be gone with the old one.
type singleConnector struct {
	driver.Connector

	connected atomic.Bool
}

// errLockLost: the connection that held the migration lock broke.
var errLockLost = errors.New("the connection that held the migration lock was lost")

// Connect implements driver.Connector.
func (c *singleConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.connected.Swap(true) {
		return nil, errLockLost
	}
	return c.Connector.Connect(ctx)
}

const (
	lockRetryFirst = 250 * time.Millisecond
	lockRetryMost  = 5 * time.Second
	lockPatience   = time.Minute
)

// retryLockTimeouts runs f until it ends with anything but a lock timeout, at
// most about lockPatience long.
func retryLockTimeouts(ctx context.Context, log func(string), f func() error) error {
	begin := time.Now()
	for wait := lockRetryFirst; ; wait = min(2*wait, lockRetryMost) {
		err := f()
		if err == nil || !errors.Is(classify(err), ErrLockTimeout) || time.Since(begin)+wait > lockPatience {
			return err
		}
		log(fmt.Sprintf("pgflow's tables are locked; trying again in %s", wait))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		}
	}
}
