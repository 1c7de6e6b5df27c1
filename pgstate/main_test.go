package pgstate_test

import (
	"context"
	_ "embed"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func TestMain(m *testing.M) {
	if os.Getenv(helperURL) != "" { // a test that runs itself uses the database that it was given
		os.Exit(m.Run())
	}
	os.Exit(pgtest.Main(m))
}

// oldPgflow makes pgflow's tables without start_mode, with a row in each.
//
//go:embed testdata/pgflow.sql
var oldPgflow string

// open returns a pool that is configured as the operator's are.
func open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	c, err := pgstate.ParseURL(url)
	must(t, err)
	config, err := c.PoolConfig()
	must(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// migrated returns the URL of a database with the handshake and a pool for it.
func migrated(t testing.TB) (string, *pgxpool.Pool) {
	t.Helper()
	url := pgtest.NewDatabase(t)
	_, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{CreateBaseTables: true})
	must(t, err)
	return url, open(t, url)
}

func run(t *testing.T, db pgstate.Querier, sql string, args ...any) {
	t.Helper()
	_, err := db.Exec(t.Context(), sql, args...)
	must(t, err)
}

func query[T any](t *testing.T, db pgstate.Querier, sql string, args ...any) T {
	t.Helper()
	var value T
	must(t, db.QueryRow(t.Context(), sql, args...).Scan(&value))
	return value
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// detached is the test's context without its end, for clean-up.
func detached(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }
