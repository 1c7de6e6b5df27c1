package contract_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func (d *database) pgNet(t testing.TB) pgstate.PgNetState {
	t.Helper()
	state, err := pgstate.CheckPgNet(t.Context(), d.pool)
	must(t, err)
	return state
}

var withPgNet = pgstate.MigrateOptions{WithPgNet: true}

// Without pg_net, or with one that cannot be called so, it refuses, says so, and nothing is changed.
func TestSQLPathWithoutPgNetRefuses(t *testing.T) {
	t.Parallel()
	for _, remove := range []string{`drop schema net cascade`, `drop function net.http_post`,
		`alter function net.http_post rename to http_put`} {
		for _, migrated := range []bool{false, true} {
			d := supabase(t)
			if migrated {
				d.migrate(t, pgstate.MigrateOptions{})
			}
			d.exec(t, remove)
			before := d.catalogue(t)
			_, err := pgstate.Migrate(t.Context(), d.url, withPgNet)
			NewWithT(t).Expect(err).To(MatchError(pgstate.ErrPgNetMissing))
			sameCatalogue(t, d.catalogue(t), before, "nothing changed")
			NewWithT(t).Expect(d.pgNet(t)).To(Equal(pgstate.PgNetAbsent))
		}
	}
	d := empty(t)
	_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{WithPgNet: true, CreateBaseTables: true})
	NewWithT(t).Expect(err).To(MatchError(pgstate.ErrPgNetMissing))
	NewWithT(t).Expect(d.catalogue(t)).To(Equal(empty(t).catalogue(t)), "the base tables are taken back")
}

// So with what is not ours, and would have to go.
func TestSQLPathBesideStrangersRefuses(t *testing.T) {
	t.Parallel()
	for stranger, name := range map[string]string{
		`create function pgflow.handshake_path_segment(text) returns text language sql as 'select $1'`:                        "handshake_path_segment",
		`create function pgflow.handshake_kept_ensure_workers() returns int language sql as 'select 1'`:                       "handshake_kept_ensure_workers",
		`drop function pgflow.ensure_workers; create function pgflow.ensure_workers() returns int language sql as 'select 1'`: "ensure_workers",
	} {
		d := supabase(t)
		d.exec(t, stranger)
		before := d.catalogue(t)
		_, err := pgstate.Migrate(t.Context(), d.url, withPgNet)
		conflict, ok := errors.AsType[*pgstate.ConflictError](err)
		NewWithT(t).Expect(ok).To(BeTrue(), "%s: %v", stranger, err)
		NewWithT(t).Expect(conflict.Objects).To(ConsistOf(ContainSubstring(name)), stranger)
		sameCatalogue(t, d.catalogue(t), before, "nothing changed")
	}
}

// Installing is opt-in and repeatable, by hand too; uninstalling restores what was there: body, comment, owner, privileges.
func TestSQLPathInstallsAndUninstalls(t *testing.T) {
	t.Parallel()
	reader := `create role %[1]s; grant execute on function pgflow.ensure_workers() to %[1]s`
	for name, setup := range map[string]string{
		"as pgflow leaves it":         ``,
		"without a comment":           `comment on function pgflow.ensure_workers() is null`,
		"with grants":                 reader,
		"with nothing for PUBLIC":     `revoke all on function pgflow.ensure_workers() from public`,
		"of another owner":            `create role %[1]s; grant usage, create on schema pgflow to %[1]s; alter function pgflow.ensure_workers() owner to %[1]s`,
		"with settings, as definer":   `alter function pgflow.ensure_workers() security definer set search_path = pgflow set work_mem = '8MB'`,
		"without one":                 `drop function pgflow.ensure_workers()`,
		"without one, nor is_local()": `drop function pgflow.ensure_workers(); drop function pgflow.is_local()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			d := supabase(t)
			if setup = strings.TrimSpace(setup); strings.Contains(setup, "%[1]s") {
				role := "contract_" + strings.ReplaceAll(newID(), "-", "")
				setup = fmt.Sprintf(setup, role)
				t.Cleanup(func() { d.dropRole(t, role) })
			}
			d.exec(t, setup)
			before := d.catalogue(t)
			d.migrate(t, pgstate.MigrateOptions{})
			handshake := d.catalogue(t)
			g.Expect(d.pgNet(t)).To(Equal(pgstate.PgNetAbsent), "opt-in")

			g.Expect(d.migrate(t, withPgNet)).To(Equal([]string{"ensure_workers.sql"}))
			installed := d.catalogue(t)
			g.Expect(d.pgNet(t)).To(Equal(pgstate.PgNetCurrent))
			g.Expect(d.migrate(t, withPgNet)).To(BeEmpty(), "again")
			g.Expect(d.migrate(t, pgstate.MigrateOptions{})).To(BeEmpty(), "without the option")
			sameCatalogue(t, d.catalogue(t), installed, "repeated")
			d.secret(t, "pgflow_functions_url", "http://functions:9000")
			d.secret(t, "pgflow_auth_secret", "key")
			f := d.function(t, "")
			g.Expect(ensured(t, d.pool)).To(Equal([]string{f.name}))

			for range 2 {
				must(t, pgstate.UninstallPgNet(t.Context(), d.url))
				g.Expect(d.pgNet(t)).To(Equal(pgstate.PgNetAbsent))
			}
			if !strings.Contains(setup, "role") { // whose grants on the handshake's own objects stay with those
				sameCatalogue(t, d.catalogue(t), handshake, "uninstalled alone")
			}
			for range 2 { // it may be run again
				d.psql(t, pgstate.PrintOptions{WithPgNet: true})
				sameCatalogue(t, d.catalogue(t), installed, "printed as migrated")
			}
			g.Expect(d.migrate(t, withPgNet)).To(BeEmpty(), "after the printed script")
			must(t, pgstate.Uninstall(t.Context(), d.url))
			sameCatalogue(t, d.catalogue(t), before, "uninstalled")
			must(t, pgstate.Uninstall(t.Context(), d.url))
		})
	}
}

// upstream are ways in which a migration of pgflow's puts its own function in place of ours.
var upstream = map[string]string{
	"in place":                `create or replace function`,
	"in place with a comment": `create or replace function %s comment on function pgflow.ensure_workers() is 'newer'`,
	"dropped and created":     `drop function pgflow.ensure_workers(); create function %s comment on function pgflow.ensure_workers() is 'newer'`,
}

const newer = ` pgflow.ensure_workers() returns table (function_name text, invoked boolean, request_id bigint)
	language sql as $$ select 'newer', false, 0::bigint $$;`

// Whoever replaces it is noticed; migrating makes it ours again, and uninstalling then restores what was newest.
func TestSQLPathReplacedIsNoticed(t *testing.T) {
	t.Parallel()
	for name, sql := range upstream {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			comment := "newer"
			if !strings.Contains(sql, "%s") {
				sql, comment = sql+newer, "starts workers\n\nin pgflow's own way"
			} else {
				sql = fmt.Sprintf(sql, newer)
			}
			stays := sqlPath(t)
			stays.exec(t, sql)
			g.Expect(stays.pgNet(t)).To(Equal(pgstate.PgNetReplaced))
			g.Expect(stays.migrate(t, pgstate.MigrateOptions{})).To(BeEmpty())
			g.Expect(stays.pgNet(t)).To(Equal(pgstate.PgNetReplaced), "without the option it is left alone")
			must(t, pgstate.Uninstall(t.Context(), stays.url))
			stays.hasNewer(t, comment)

			again := sqlPath(t)
			again.exec(t, sql)
			g.Expect(again.migrate(t, withPgNet)).To(Equal([]string{"ensure_workers.sql"}))
			g.Expect(again.pgNet(t)).To(Equal(pgstate.PgNetCurrent))
			f := again.function(t, "")
			g.Expect(ensured(t, again.pool)).To(Equal([]string{f.name}))
			must(t, pgstate.UninstallPgNet(t.Context(), again.url))
			again.hasNewer(t, comment)
		})
	}
	t.Run("dropped", func(t *testing.T) {
		t.Parallel()
		d := sqlPath(t)
		d.exec(t, `drop function pgflow.ensure_workers()`)
		NewWithT(t).Expect(d.pgNet(t)).To(Equal(pgstate.PgNetReplaced))
		d.migrate(t, withPgNet)
		NewWithT(t).Expect(d.pgNet(t)).To(Equal(pgstate.PgNetCurrent))
	})
	t.Run("by another build", func(t *testing.T) {
		t.Parallel()
		d := sqlPath(t)
		d.exec(t, `do $do$ begin
			execute replace(pg_get_functiondef('pgflow.ensure_workers()'::regprocedure), 'READ COMMITTED', 'read committed');
			execute format('comment on function pgflow.ensure_workers() is %L', 'pgflow-operator: another build''s; body ' ||
				(select encode(sha256(convert_to(prosrc, 'UTF8')), 'hex') from pg_proc where oid = 'pgflow.ensure_workers()'::regprocedure));
		end $do$`)
		NewWithT(t).Expect(d.pgNet(t)).To(Equal(pgstate.PgNetOutdated))
		NewWithT(t).Expect(d.migrate(t, withPgNet)).To(Equal([]string{"ensure_workers.sql"}))
		NewWithT(t).Expect(d.pgNet(t)).To(Equal(pgstate.PgNetCurrent))
		must(t, pgstate.UninstallPgNet(t.Context(), d.url))
		NewWithT(t).Expect(d.text(t, `select obj_description('pgflow.ensure_workers()'::regprocedure)`)).To(HavePrefix("starts workers"), "not the other build's")
	})
}

// hasNewer expects the newest function in place, with its comment and nothing of ours.
func (d *database) hasNewer(t testing.TB, comment string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(d.text(t, `select function_name from pgflow.ensure_workers()`)).To(Equal("newer"))
	g.Expect(d.text(t, `select obj_description('pgflow.ensure_workers()'::regprocedure, 'pg_proc')`)).To(Equal(comment))
	g.Expect(d.text(t, `select count(*) from pg_proc where pronamespace = 'pgflow'::regnamespace
		and proname in ('handshake_path_segment', 'handshake_kept_ensure_workers')`)).To(Equal("0"))
	g.Expect(d.pgNet(t)).To(Equal(pgstate.PgNetAbsent))
}

// Nothing for PUBLIC, anon or authenticated; who else could call it before still can.
func TestSQLPathPrivileges(t *testing.T) {
	t.Parallel()
	d := supabase(t)
	g := NewWithT(t)
	_, caller := d.role(t, `execute on function pgflow.ensure_workers()`, `execute on function pgflow.is_local()`, `select, update on pgflow.worker_functions`,
		`select on pgflow.workers`, `usage on schema net, vault`, `all on net.http_request_queue`, `select on vault.decrypted_secrets`)
	nobody, _ := d.role(t)
	d.exec(t, `alter default privileges in schema pgflow grant execute on functions to public`)
	d.migrate(t, withPgNet)
	d.secret(t, "supabase_project_id", "project")
	d.secret(t, "supabase_service_role_key", "service key")
	f := d.function(t, "")
	g.Expect(ensured(t, caller)).To(Equal([]string{f.name}))
	g.Expect(d.text(t, `select string_agg(oid::regprocedure::text, ', ') from pg_proc where pronamespace = 'pgflow'::regnamespace
		and obj_description(oid, 'pg_proc') like 'pgflow-operator:%' and has_function_privilege($1, oid, 'execute')`, nobody)).To(BeEmpty())
	// Its rights are the caller's, its names resolve in pg_catalog alone.
	g.Expect(d.text(t, `select string_agg(proname || ' ' || prosecdef || ' ' || array_to_string(proconfig, ' '), E'\n' order by proname) from pg_proc
		where pronamespace = 'pgflow'::regnamespace and proname in ('ensure_workers', 'handshake_path_segment')`)).
		To(Equal("ensure_workers false search_path=pg_catalog, pg_temp lock_timeout=5s\nhandshake_path_segment false search_path=pg_catalog, pg_temp"))

	// A role that owns the tables and not the function is told so before anything changes.
	other := supabase(t)
	role, _ := other.role(t, `create on schema pgflow`, `usage on schema net`)
	other.exec(t, `alter role `+role+` login; alter table pgflow.workers owner to `+role+`; alter table pgflow.worker_functions owner to `+role)
	before := other.catalogue(t)
	u, err := url.Parse(other.url)
	must(t, err)
	password, _ := u.User.Password()
	other.exec(t, `alter role `+role+` password '`+password+`'`)
	u.User = url.UserPassword(role, password)
	_, err = pgstate.Migrate(t.Context(), u.String(), withPgNet)
	g.Expect(err).To(MatchError(pgstate.ErrPermission))
	g.Expect(err).To(MatchError(ContainSubstring("does not own function")))
	sameCatalogue(t, other.catalogue(t), before, "nothing changed")
}
