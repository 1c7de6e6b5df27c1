package pgstate_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

var withBaseTables = pgstate.MigrateOptions{CreateBaseTables: true}

func TestMigrateInstallsOnceAndSaysWhatIsThere(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	pool := open(t, url)

	before, err := pgstate.Check(t.Context(), pool)
	must(t, err)
	if before.Current != 0 || before.Latest < 3 || !before.Behind() {
		t.Fatalf("before: %+v", before)
	}
	applied, err := pgstate.Migrate(t.Context(), url, withBaseTables)
	must(t, err)
	if len(applied) != int(before.Latest) || !slices.IsSorted(applied) {
		t.Fatalf("applied %q, want all %d", applied, before.Latest)
	}
	after, err := pgstate.Check(t.Context(), pool)
	must(t, err)
	if after.Current != after.Latest || after.Behind() {
		t.Fatalf("after: %+v", after)
	}
	schema := dump(t, url)
	applied, err = pgstate.Migrate(t.Context(), url, withBaseTables)
	must(t, err)
	if len(applied) != 0 {
		t.Fatalf("the second time applied %q", applied)
	}
	wantEqual(t, "schema after the second time", dump(t, url), schema)
}

func TestMigrateKeepsRows(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	pool := open(t, url)
	run(t, pool, oldPgflow)
	_, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{})
	must(t, err)
	if n := query[int](t, pool, `SELECT count(*) FROM pgflow.workers w JOIN pgflow.worker_functions f USING (function_name)
		WHERE f.debounce = '7 s'`); n != 1 {
		t.Fatalf("%d rows are left of one", n)
	}
}

func TestMigrateRefusesWithoutPgflow(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	before := dump(t, url)
	_, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{})
	if !errors.Is(err, pgstate.ErrPgflowMissing) {
		t.Fatalf("got %v", err)
	}
	wantEqual(t, "schema", dump(t, url), before)
}

func TestMigrateRefusesStrangersAndChangesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setup, object string
		options       pgstate.MigrateOptions
	}{
		"column": {
			setup:  oldPgflow + `ALTER TABLE pgflow.workers ADD COLUMN invocation_id text;`,
			object: "pgflow.workers.invocation_id",
		},
		"function": {
			setup:  oldPgflow + `CREATE FUNCTION pgflow.clear_throttle(a int, b int) RETURNS int LANGUAGE sql AS 'SELECT 1';`,
			object: "pgflow.clear_throttle(a integer, b integer)",
		},
		"function, and the base tables go again": {
			setup:   `CREATE SCHEMA pgflow; CREATE FUNCTION pgflow.clear_throttle() RETURNS int LANGUAGE sql AS 'SELECT 1';`,
			object:  "pgflow.clear_throttle()",
			options: withBaseTables,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.NewDatabase(t)
			run(t, open(t, url), test.setup)
			before := dump(t, url)
			_, err := pgstate.Migrate(t.Context(), url, test.options)
			var conflict *pgstate.ConflictError
			if !errors.As(err, &conflict) {
				t.Fatalf("got %v", err)
			}
			if len(conflict.Objects) != 1 || !strings.Contains(conflict.Objects[0], test.object) {
				t.Fatalf("objects %q, want one with %q", conflict.Objects, test.object)
			}
			wantEqual(t, "schema", dump(t, url), before)
		})
	}
}

func TestMigrateFromSeveralProcessesAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	run(t, open(t, url), oldPgflow)
	var (
		group   sync.WaitGroup
		mu      sync.Mutex
		applied []string
	)
	for range 6 {
		group.Go(func() {
			names, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			applied = append(applied, names...)
		})
	}
	group.Wait()
	version, err := pgstate.Check(t.Context(), open(t, url))
	must(t, err)
	if len(applied) != int(version.Latest) || version.Behind() {
		t.Fatalf("applied %q in all, version %+v", applied, version)
	}
}

// A worker's transaction may hold its table for longer than a migration may
// make others wait behind it.
func TestMigrateTriesAgainAfterALockTimeout(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	pool := open(t, url)
	run(t, pool, oldPgflow)
	tx, err := pool.Begin(t.Context())
	must(t, err)
	run(t, tx, `LOCK TABLE pgflow.workers IN ACCESS SHARE MODE`)

	retried := false
	applied, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{Log: func(line string) {
		if strings.Contains(line, "locked") && !retried {
			retried = true
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}})
	must(t, err)
	if !retried || len(applied) == 0 {
		t.Fatalf("retried: %v, applied %q", retried, applied)
	}
}

func TestMigrateWaitsForAnotherAndNamesThat(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	pool := open(t, url)
	conn, err := pool.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	run(t, conn, `SELECT pg_advisory_lock($1::bigint)`, int64(0x7067666c6f776f70))

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = pgstate.Migrate(ctx, url, withBaseTables)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another migration") {
		t.Fatalf("got %v", err)
	}
}

// Without its connection a migration has no lock, and must not go on with a new one.
func TestMigrateEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	pool := open(t, url)
	var first, second error
	err := pgstate.InMigrationSession(t.Context(), url, func(db *sql.DB) error {
		var pid int
		must(t, db.QueryRowContext(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
		held := query[int](t, pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = $1::int`, pid)
		if held != 1 {
			t.Errorf("it holds %d locks", held)
		}
		run(t, pool, `SELECT pg_terminate_backend($1::int)`, pid)
		_, first = db.ExecContext(t.Context(), `SELECT 1`)
		_, second = db.ExecContext(t.Context(), `SELECT 1`)
		return second
	})
	if first == nil || !errors.Is(second, pgstate.ErrLockLost) || !errors.Is(err, pgstate.ErrLockLost) {
		t.Fatalf("first %v, then %v, in the end %v", first, second, err)
	}
	if err := pgstate.TranslateError("migrate", err); !errors.Is(err, pgstate.ErrUnavailable) {
		t.Fatal(err)
	}
}

func TestUninstallLeavesPgflowAsItWas(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	empty := dump(t, url)
	must(t, pgstate.Uninstall(t.Context(), url))
	wantEqual(t, "schema of an empty database", dump(t, url), empty)

	_, err := pgstate.Migrate(t.Context(), url, withBaseTables)
	must(t, err)
	must(t, pgstate.Uninstall(t.Context(), url))
	wantEqual(t, "schema after a trial", dump(t, url), empty)

	run(t, open(t, url), oldPgflow)
	before := dump(t, url)
	for range 2 {
		_, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{})
		must(t, err)
		must(t, pgstate.Uninstall(t.Context(), url))
		wantEqual(t, "schema after uninstalling", dump(t, url), before)
	}
}

// The tables that a trial made are dropped only when that loses nothing.
func TestUninstallKeepsRows(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	empty := dump(t, url)
	_, err := pgstate.Migrate(t.Context(), url, withBaseTables)
	must(t, err)
	pool := open(t, url)
	run(t, pool, `SELECT pgflow.track_worker_function('f')`)
	must(t, pgstate.Uninstall(t.Context(), url))
	if n := query[int](t, pool, `SELECT count(*) FROM pgflow.worker_functions`); n != 1 {
		t.Fatalf("%d registrations", n)
	}
	run(t, pool, `SELECT pgflow.track_worker_function('g')`)
	run(t, pool, `TRUNCATE pgflow.worker_functions`)
	must(t, pgstate.Uninstall(t.Context(), url))
	wantEqual(t, "schema when the rows are gone", dump(t, url), empty)
}
