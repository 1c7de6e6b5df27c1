package pgstate_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// sentinels are all that an error can be; each is expected to be one alone.
var sentinels = []error{
	pgstate.ErrSchemaMissing, pgstate.ErrLockTimeout, pgstate.ErrReadOnly, pgstate.ErrPermission,
	pgstate.ErrAuthentication, pgstate.ErrUnavailable, pgstate.ErrIsolation, pgstate.ErrNoStartMode, pgstate.ErrPgflowMissing,
	pgstate.ErrPgNetMissing,
}

// wantError asserts that err is want and nothing else (nil: none of ours),
// names the operation and keeps the driver's error with this SQLSTATE.
func wantError(t *testing.T, err, want error, operation, code string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) != (errors.Is(sentinel, want)) {
			t.Fatalf("is %v: %v; the error is %v", sentinel, errors.Is(err, sentinel), err)
		}
	}
	if !strings.HasPrefix(err.Error(), operation+": ") {
		t.Errorf("does not begin with %q: %v", operation, err)
	}
	var pg *pgconn.PgError
	if found := errors.As(err, &pg); found != (code != "") || found && pg.Code != code {
		t.Errorf("driver's error %+v, want code %q", pg, code)
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	url, pool := migrated(t)
	store := pgstate.NewStore(pool)
	register(t, store, "f")
	ctx := t.Context()

	t.Run("lock timeout", func(t *testing.T) {
		tx, err := pool.Begin(ctx)
		must(t, err)
		defer func() { _ = tx.Rollback(detached(t)) }()
		run(t, tx, `SELECT FROM pgflow.worker_functions FOR UPDATE`)
		_, err = store.Reserve(ctx, "f")
		wantError(t, err, pgstate.ErrLockTimeout, "reserve", "55P03")
	})
	t.Run("read-only", func(t *testing.T) {
		tx, err := pool.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
		must(t, err)
		defer func() { _ = tx.Rollback(detached(t)) }()
		_, err = pgstate.NewStore(tx).Disable(ctx, "f")
		wantError(t, err, pgstate.ErrReadOnly, "disable", "25006")
	})
	t.Run("isolation", func(t *testing.T) {
		for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
			tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			must(t, err)
			_, err = pgstate.NewStore(tx).Receive(ctx, "f", uuid.New(), uuid.Nil)
			wantError(t, err, pgstate.ErrIsolation, "receive", "25001")
			must(t, tx.Rollback(ctx))
		}
	})
	t.Run("bad value", func(t *testing.T) {
		_, err := store.UpdateRegistration(ctx, "f", pgstate.Registration{Handshake: new("maybe")})
		wantError(t, err, nil, "update registration", "23514")
	})
	t.Run("refused", func(t *testing.T) {
		_, err := pool.Exec(ctx, `INSERT INTO pgflow.workers (worker_id, queue_name, function_name, invocation_id)
			VALUES (gen_random_uuid(), 'q', 'f', gen_random_uuid())`)
		err = pgstate.TranslateError("insert worker", err)
		wantError(t, err, nil, "insert worker", "PF001")
		var refused *pgstate.RefusedError
		if !errors.As(err, &refused) || refused.Reason != "unknown" {
			t.Fatalf("%+v", refused)
		}
	})
	t.Run("permission", func(t *testing.T) {
		run(t, pool, `CREATE ROLE nobody LOGIN PASSWORD 'nobody-password'; GRANT USAGE ON SCHEMA pgflow TO nobody`)
		defer run(t, pool, `DROP OWNED BY nobody; DROP ROLE nobody`)
		other := connectAs(t, url, "nobody", "nobody-password")
		_, err := pgstate.NewStore(other).States(ctx)
		wantError(t, err, pgstate.ErrPermission, "read states", "42501")
		_, err = pgstate.NewStore(other).ClearThrottle(ctx, "f")
		wantError(t, err, pgstate.ErrPermission, "clear throttle", "42501")
		other.Close()
	})
	t.Run("connection ended", func(t *testing.T) {
		conn, err := pool.Acquire(ctx)
		must(t, err)
		defer conn.Release()
		run(t, pool, `SELECT pg_terminate_backend($1::int)`, int(conn.Conn().PgConn().PID()))
		_, err = pgstate.NewStore(conn).States(ctx)
		wantError(t, err, pgstate.ErrUnavailable, "read states", "57P01")
	})
}

func TestErrorsWithoutTheHandshake(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.NewDatabase(t))
	store := pgstate.NewStore(pool)
	_, err := store.States(t.Context())
	wantError(t, err, pgstate.ErrSchemaMissing, "read states", "42P01")
	_, err = store.Reserve(t.Context(), "f")
	wantError(t, err, pgstate.ErrSchemaMissing, "reserve", "3F000")

	run(t, pool, oldPgflow)
	_, err = store.Reserve(t.Context(), "old")
	wantError(t, err, pgstate.ErrSchemaMissing, "reserve", "42883")
	_, err = store.UpdateRegistration(t.Context(), "old", pgstate.Registration{Enabled: new(bool)})
	wantError(t, err, pgstate.ErrSchemaMissing, "update registration", "42703")
}

func TestErrorsOfConnecting(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	admin := open(t, url)
	run(t, admin, `CREATE ROLE full_role LOGIN PASSWORD 'full-password' CONNECTION LIMIT 0`)
	t.Cleanup(func() { _, _ = admin.Exec(detached(t), `DROP ROLE full_role`) }) // roles are the cluster's
	listener, err := net.Listen("tcp", "127.0.0.1:0")                           // accepts and never answers
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, refusing.Close())

	config, err := pgx.ParseConfig(url)
	must(t, err)
	good := func(port uint16, user, password, database string) pgstate.Connection {
		c, err := pgstate.NewConnection("127.0.0.1", port, user, password, database)
		must(t, err)
		return c
	}
	silent, err := pgstate.ParseURL("postgres://u:wrong-password@" + listener.Addr().String() + "/d?connect_timeout=1")
	must(t, err)
	for name, test := range map[string]struct {
		connection pgstate.Connection
		want       error
		code       string
	}{
		"wrong password":   {good(config.Port, "full_role", "wrong-password", config.Database), pgstate.ErrAuthentication, "28P01"},
		"no such user":     {good(config.Port, "no_such_role", "wrong-password", config.Database), pgstate.ErrAuthentication, "28P01"},
		"no such database": {good(config.Port, config.User, config.Password, "no_such_database"), pgstate.ErrUnavailable, "3D000"},
		"no room":          {good(config.Port, "full_role", "full-password", config.Database), pgstate.ErrUnavailable, "53300"},
		"nobody listens":   {good(port(t, refusing.Addr()), "u", "wrong-password", "d"), pgstate.ErrUnavailable, ""},
		"nobody answers":   {silent, pgstate.ErrUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := openConnection(t, test.connection)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := pgstate.NewStore(pool).States(ctx)
			wantError(t, err, test.want, "read states", test.code)
			if strings.Contains(err.Error(), "-password") {
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}
}

// A caller that gave up learns nothing about the database.
func TestErrorsOfTheCaller(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := pgstate.NewStore(pool).States(ctx)
	wantError(t, err, nil, "read states", "")
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = pool.Exec(ctx, `SELECT pg_sleep(30)`)
	err = pgstate.TranslateError("sleep", err)
	wantError(t, err, nil, "sleep", "")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func connectAs(t *testing.T, url, user, password string) *pgxpool.Pool {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	must(t, err)
	c, err := pgstate.NewConnection(config.Host, config.Port, user, password, config.Database)
	must(t, err)
	return openConnection(t, c)
}

func openConnection(t *testing.T, c pgstate.Connection) *pgxpool.Pool {
	t.Helper()
	config, err := c.PoolConfig()
	must(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func port(t *testing.T, address net.Addr) uint16 {
	t.Helper()
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		t.Fatalf("%T", address)
	}
	return uint16(tcp.Port)
}
