package contract_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// querier is a pool, a connection or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// database is a database and a pool of the test's own.
type database struct {
	url  string
	pool *pgxpool.Pool
}

// empty returns a database with nothing in it.
func empty(t testing.TB) *database {
	t.Helper()
	return open(t, pgtest.NewDatabase(t))
}

func open(t testing.TB, url string) *database {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	config.MaxConns = 40
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return &database{url: url, pool: pool}
}

// migrated returns a database of the test's own with the base tables and the handshake.
func migrated(t testing.TB) *database {
	t.Helper()
	d := empty(t)
	_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{CreateBaseTables: true})
	must(t, err)
	return d
}

// shared is migrated for tests that look at nothing but functions of their own; making a database for each of them
// would take most of the suite's time. It goes with the cluster.
func shared(t testing.TB) *database {
	t.Helper()
	common.Do(func() {
		maker := empty(t)
		maker.exec(t, `create database shared`)
		u, err := url.Parse(maker.url)
		must(t, err)
		u.Path = "/shared"
		_, err = pgstate.Migrate(t.Context(), u.String(), pgstate.MigrateOptions{CreateBaseTables: true})
		must(t, err)
		commonURL = u.String()
	})
	if commonURL == "" {
		t.Fatal("the shared database could not be made")
	}
	return open(t, commonURL)
}

var (
	common    sync.Once
	commonURL string // written once, in common
)

// connect returns a connection of its own, for LISTEN, transactions and session settings.
func (d *database) connect(t testing.TB) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.url)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// begin opens a transaction on a connection of its own; what is not committed by the end of the test is rolled back.
func (d *database) begin(t testing.TB, options ...pgx.TxOptions) pgx.Tx {
	t.Helper()
	var o pgx.TxOptions
	if len(options) > 0 {
		o = options[0]
	}
	tx, err := d.connect(t).BeginTx(t.Context(), o)
	must(t, err)
	return tx
}

func (d *database) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	_, err := d.pool.Exec(t.Context(), sql, args...)
	must(t, err)
}

// text runs a query that returns one value and gives it as text.
func (d *database) text(t testing.TB, sql string, args ...any) string {
	t.Helper()
	return textOf(t, d.pool, sql, args...)
}

func textOf(t testing.TB, q querier, sql string, args ...any) string {
	t.Helper()
	var s *string
	must(t, q.QueryRow(t.Context(), sql, args...).Scan(&s))
	if s == nil {
		return ""
	}
	return *s
}

// function inserts a registration; settings is the SET list of an UPDATE that follows ("" for none).
func (d *database) function(t testing.TB, settings string) function {
	t.Helper()
	return d.named(t, fmt.Sprintf("function-%d", functions.Add(1)), settings)
}

var functions atomic.Int64

// named is function with a name that matters.
func (d *database) named(t testing.TB, name, settings string) function {
	t.Helper()
	f := d.unregistered(t, name)
	d.exec(t, `insert into pgflow.worker_functions (function_name) values ($1)`, name)
	if settings != "" {
		f.set(settings)
	}
	return f
}

// unregistered is a function without a registration.
func (d *database) unregistered(t testing.TB, name string) function {
	return function{t: t, d: d, q: d.pool, name: name}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(describe(err))
	}
}

func describe(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fmt.Sprintf("%v (detail %q, where %s)", err, pg.Detail, pg.Where)
	}
	return fmt.Sprint(err)
}

// code is the SQLSTATE of an error; "" for none.
func code(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// refusedFor expects SQLSTATE PF001 with that reason in DETAIL.
func refusedFor(t testing.TB, err error, reason string) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		t.Fatalf("want PF001 %s, got %v", reason, err)
	}
	NewWithT(t).Expect([2]string{pg.Code, pg.Detail}).To(Equal([2]string{"PF001", reason}), pg.Message)
}

func newID() string { return uuid.NewString() }

// waiting blocks until that many sessions of this database wait for a lock.
func (d *database) waiting(t testing.TB, n int) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		var have int
		g.Expect(d.pool.QueryRow(t.Context(), `select count(*) from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock'`).Scan(&have)).To(Succeed())
		g.Expect(have).To(Equal(n))
	}).WithTimeout(10 * time.Second).WithPolling(5 * time.Millisecond).Should(Succeed())
}

// now is the database's clock.
func (d *database) now(t testing.TB) time.Time {
	t.Helper()
	var now time.Time
	must(t, d.pool.QueryRow(t.Context(), `select clock_timestamp()`).Scan(&now))
	return now.UTC()
}
