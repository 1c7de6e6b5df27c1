package contract_test

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
)

var (
	//go:embed testdata/catalogue.sql
	catalogueSQL string
	//go:embed testdata/pgflow_without_start_mode.sql
	pgflowSQL string
	//go:embed testdata/pgflow_add_start_mode.sql
	addStartModeSQL string
	//go:embed testdata/pgflow_statements.sql
	pgflowStatementsSQL string
)

// pgflowTables is the SQL that makes pgflow's tables.
func pgflowTables(startMode bool) []string {
	if startMode {
		return []string{pgflowSQL, addStartModeSQL}
	}
	return []string{pgflowSQL}
}

// pgflow returns a database with pgflow's tables and without the handshake.
func pgflow(t testing.TB, startMode bool) *database {
	t.Helper()
	d := empty(t)
	for _, sql := range pgflowTables(startMode) {
		d.exec(t, sql)
	}
	return d
}

// catalogue is a dump of everything the database's catalogue holds, a line per object.
func (d *database) catalogue(t testing.TB) []string {
	t.Helper()
	rows, err := d.pool.Query(t.Context(), catalogueSQL)
	must(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	return lines
}

// sameCatalogue expects no difference, and shows only the lines that differ.
func sameCatalogue(t testing.TB, got, want []string, why string) {
	t.Helper()
	NewWithT(t).Expect(append(without(got, want, "+ "), without(want, got, "- ")...)).To(BeEmpty(), why)
}

func without(lines, others []string, mark string) []string {
	have := map[string]bool{}
	for _, o := range others {
		have[o] = true
	}
	missing := []string{}
	for _, l := range lines {
		if !have[l] {
			missing = append(missing, mark+l)
		}
	}
	return missing
}

// object is something with a name that could be a stranger's.
type object struct {
	kind, table, name, arguments string
}

// objects are the columns, functions, views, indexes and triggers in schema pgflow.
func (d *database) objects(t testing.TB) map[object]bool {
	t.Helper()
	rows, err := d.pool.Query(t.Context(), `
		select 'column', relname::text, attname::text, '' from pg_attribute a join pg_class c on c.oid = attrelid
			where relname in ('workers', 'worker_functions') and attnum > 0 and not attisdropped and relnamespace = to_regnamespace('pgflow')
		union all select 'function', '', proname::text, oidvectortypes(proargtypes) from pg_proc where pronamespace = to_regnamespace('pgflow')
		union all select 'view', '', relname::text, '' from pg_class where relkind = 'v' and relnamespace = to_regnamespace('pgflow')
		union all select 'index', t.relname::text, i.relname::text, '' from pg_index x join pg_class i on i.oid = indexrelid join pg_class t on t.oid = indrelid
			where t.relname in ('workers', 'worker_functions') and i.relnamespace = to_regnamespace('pgflow')
		union all select 'trigger', relname::text, tgname::text, '' from pg_trigger g join pg_class c on c.oid = tgrelid where not tgisinternal
		order by 1, 2, 3`)
	must(t, err)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o object, err error) {
		return o, row.Scan(&o.kind, &o.table, &o.name, &o.arguments)
	})
	must(t, err)
	objects := map[object]bool{}
	for _, o := range list {
		objects[o] = true
	}
	return objects
}

// statements are pgflow's own, one life of a worker and a tick, in a session that knows the worker's id and function.
func pgflowStatements() []string {
	statements := []string{}
	for s := range strings.SplitSeq(pgflowStatementsSQL, ";\n") {
		if strings.TrimSpace(s) != "" {
			statements = append(statements, s)
		}
	}
	return statements
}

// pgflowLives sends pgflow's own statements for a new worker, and expects each to touch a row or return one.
func pgflowLives(t testing.TB, c *pgx.Conn) {
	t.Helper()
	_, err := c.Exec(t.Context(), `select set_config('contract.worker', gen_random_uuid()::text, false), set_config('contract.function', 'pgflow''s own', false)`)
	must(t, err)
	for _, sql := range pgflowStatements() {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s\n%s", sql, describe(err))
		}
	}
	if s := textOf(t, c, `select count(*)::text from pgflow.workers where worker_id = current_setting('contract.worker')::uuid
		and stopped_at is not null and deprecated_at is not null`); s != "1" {
		t.Fatal("the worker's life left no row")
	}
}
