package contract_test

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

//go:embed testdata/pgnet.sql
var pgNetSQL string

// supabase is a database with pgflow's tables, its ensure_workers(), pg_net's and the vault's stand-ins, and no handshake.
func supabase(t testing.TB) *database {
	t.Helper()
	d := pgflow(t, true)
	d.exec(t, pgNetSQL)
	return d
}

// sqlPath is that with the handshake and the token-aware ensure_workers(), and with secrets.
func sqlPath(t testing.TB) *database {
	t.Helper()
	d := supabase(t)
	d.migrate(t, pgstate.MigrateOptions{WithPgNet: true})
	d.secret(t, "supabase_project_id", "project")
	d.secret(t, "supabase_service_role_key", "service key")
	return d
}

// secret sets a secret in the vault; "" deletes it.
func (d *database) secret(t testing.TB, name, value string) {
	t.Helper()
	d.exec(t, `delete from vault.secrets where name = $1`, name)
	if value != "" {
		d.exec(t, `insert into vault.secrets values ($1, $2)`, name, value)
	}
}

// started is a row that ensure_workers() returns.
type started struct {
	Function string
	Invoked  bool
	Request  int64
}

func tryEnsure(ctx context.Context, q querier) ([]started, error) {
	rows, err := q.Query(ctx, `select * from pgflow.ensure_workers()`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[started])
}

func ensure(t testing.TB, q querier) []started {
	t.Helper()
	rows, err := tryEnsure(t.Context(), q)
	must(t, err)
	return rows
}

// ensured are the names of the functions that a call started.
func ensured(t testing.TB, q querier) []string {
	t.Helper()
	names := []string{}
	for _, s := range ensure(t, q) {
		names = append(names, s.Function)
	}
	return names
}

// request is what pg_net is to send.
type request struct {
	ID                         int64
	Method, URL, Headers, Body string
	Params                     string
}

// requests are those that pg_net finds, in their order.
func (d *database) requests(t testing.TB) []request {
	t.Helper()
	rows, err := d.pool.Query(t.Context(), `select id, method, url, headers::text, body::text, params::text from net.http_request_queue order by id`)
	must(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[request])
	must(t, err)
	return all
}

// sent are the ids of the invocations that pg_net is to send for a function of this URL.
func (d *database) sent(t testing.TB, url string) []string {
	t.Helper()
	rows, err := d.pool.Query(t.Context(), `select headers ->> 'X-Pgflow-Invocation-Id' from net.http_request_queue where url = $1 order by id`, url)
	must(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	return ids
}

const projectURL = "https://project.supabase.co/functions/v1"

// headersWith are the contract's headers for an invocation, as jsonb prints them.
func headersWith(id, key string) string {
	parts := []string{`"Content-Type": "application/json"`}
	if key != "" {
		parts = append(parts, `"Authorization": "Bearer `+key+`"`)
	}
	return `{` + strings.Join(append(parts, fmt.Sprintf(`"X-Pgflow-Invocation-Id": %q`, id)), ", ") + `}`
}
