package pgstate_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3/database"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func TestPrintedScriptDoesWhatMigrateDoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		setup string
		base  bool
	}{
		"pgflow":      {setup: oldPgflow},
		"base tables": {base: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			byMigrate, byScript := pgtest.NewDatabase(t), pgtest.NewDatabase(t)
			for _, url := range []string{byMigrate, byScript} {
				if test.setup != "" {
					run(t, open(t, url), test.setup)
				}
			}
			_, err := pgstate.Migrate(t.Context(), byMigrate, pgstate.MigrateOptions{CreateBaseTables: test.base})
			must(t, err)

			var script bytes.Buffer
			must(t, pgstate.Print(&script, pgstate.PrintOptions{CreateBaseTables: test.base}))
			for range 2 { // it may be run again
				if output, err := psql(t, byScript, script.String()); err != nil {
					t.Fatalf("psql: %v\n%s", err, output)
				}
			}
			wantEqual(t, "schema", dump(t, byScript), dump(t, byMigrate))
			const versions = `SELECT string_agg(version_id || ' ' || is_applied, ',' ORDER BY id) FROM pgflow.operator_schema_version`
			wantEqual(t, "versions",
				query[string](t, open(t, byScript), versions), query[string](t, open(t, byMigrate), versions))

			version, err := pgstate.Check(t.Context(), open(t, byScript))
			must(t, err)
			if version.Behind() {
				t.Fatalf("check is not content: %+v", version)
			}
			applied, err := pgstate.Migrate(t.Context(), byScript, pgstate.MigrateOptions{})
			must(t, err)
			if len(applied) != 0 {
				t.Fatalf("migrate afterwards applied %q", applied)
			}
			must(t, pgstate.Uninstall(t.Context(), byScript))
		})
	}
}

func TestPrintedScriptStopsAtARefusal(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	before := dump(t, url)
	var script bytes.Buffer
	must(t, pgstate.Print(&script, pgstate.PrintOptions{}))
	output, err := psql(t, url, script.String())
	if err == nil || !strings.Contains(output, "pgflow is not installed") {
		t.Fatalf("psql: %v\n%s", err, output)
	}
	wantEqual(t, "schema", dump(t, url), before)
}

func TestPrintHasNoAnnotationsAndOneTransactionEach(t *testing.T) {
	t.Parallel()
	var script bytes.Buffer
	must(t, pgstate.Print(&script, pgstate.PrintOptions{CreateBaseTables: true}))
	if strings.Contains(script.String(), "+goose") {
		t.Error("an annotation is left")
	}
	open := false
	for line := range strings.Lines(script.String()) {
		switch statement := strings.TrimSpace(line); {
		case statement == "BEGIN;":
			open = true
		case statement == "COMMIT;":
			open = false
		case strings.Contains(statement, "INDEX CONCURRENTLY") && !strings.HasPrefix(statement, "--") && open:
			t.Errorf("in a transaction: %s", statement)
		}
	}
	if open {
		t.Error("the last transaction is not committed")
	}
}

// The version table is created by our SQL, for the sake of the printed script,
// and has to be the one that the migration tool would have created.
func TestVersionTableIsTheMigrationTools(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	run(t, pool, `CREATE SCHEMA reference`)
	store, err := database.NewStore(database.DialectPostgres, "reference.operator_schema_version")
	must(t, err)
	db := stdlib.OpenDBFromPool(pool)
	defer func() { must(t, db.Close()) }()
	must(t, store.CreateVersionTable(t.Context(), db))
	const describe = `
		SELECT string_agg(format('%s %s %s %s %s', attname, atttypid::regtype, attnotnull, attidentity,
		                         pg_get_expr(adbin, adrelid)), ', ' ORDER BY attnum)
		       || (SELECT string_agg(pg_get_constraintdef(oid), ', ' ORDER BY conname) FROM pg_constraint WHERE conrelid = $1::regclass)
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped`
	wantEqual(t, "version table",
		query[string](t, pool, describe, "pgflow.operator_schema_version"),
		query[string](t, pool, describe, "reference.operator_schema_version"))
}

// binary finds one of PostgreSQL's programs, the newest version's.
func binary(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	must(t, err)
	if len(found) > 0 {
		slices.Sort(found)
		return found[len(found)-1]
	}
	file, err := exec.LookPath(name)
	must(t, err)
	return file
}

// psql runs a script as a person would, and returns what it printed.
func psql(t *testing.T, url, script string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary(t, "psql"), "--no-psqlrc", "--quiet", url)
	command.Stdin = strings.NewReader(script)
	output, err := command.CombinedOutput()
	return string(output), err
}

// volatile matches what differs between two dumps of the same schema.
var volatile = regexp.MustCompile(`(?m)^\\(un)?restrict .*$`)

// dump returns the whole schema of a database as SQL.
func dump(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	command := exec.CommandContext(ctx, binary(t, "pg_dump"), "--schema-only", url)
	var failure bytes.Buffer
	command.Stderr = &failure
	output, err := command.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v\n%s", err, failure.String())
	}
	return volatile.ReplaceAllString(string(output), "")
}

func wantEqual(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s differs in line %d:\n got %s\nwant %s", what, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s has %d lines, want %d", what, len(g), len(w))
}
