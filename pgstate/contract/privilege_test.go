package contract_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// operations are the functions that a caller needs EXECUTE on: ours, as their comments say, and no trigger functions.
func (d *database) operations(t testing.TB) string {
	t.Helper()
	return d.text(t, `select string_agg(oid::regprocedure::text, ', ') from pg_proc where pronamespace = 'pgflow'::regnamespace
		and obj_description(oid, 'pg_proc') like 'pgflow-operator:%' and prorettype <> 'trigger'::regtype`)
}

// role makes a role of the test's own, with these grants in the database, and a connection that acts as it.
func (d *database) role(t testing.TB, grants ...string) (string, *pgx.Conn) {
	t.Helper()
	role := "contract_" + strings.ReplaceAll(newID(), "-", "")
	d.exec(t, `create role `+role)
	t.Cleanup(func() { d.dropRole(t, role) })
	for _, grant := range append(grants, `usage on schema pgflow`) {
		d.exec(t, `grant `+grant+` to `+role)
	}
	c := d.connect(t)
	_, err := c.Exec(t.Context(), `set role `+role)
	must(t, err)
	return role, c
}

// dropRole is for the test's end: the cluster is the tests' all.
func (d *database) dropRole(t testing.TB, role string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := d.pool.Exec(ctx, fmt.Sprintf(`drop owned by %s; drop role %s`, role, role)); err != nil {
		t.Error(err)
	}
}

// Operations run with the caller's rights: EXECUTE, SELECT/UPDATE on worker_functions, SELECT/INSERT/UPDATE on workers.
func TestOperationsRunWithTheCallersRights(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	execute := `execute on function ` + d.operations(t)
	f := d.function(t, "")

	_, c := d.role(t, execute, `select, update on pgflow.worker_functions`, `select, insert, update on pgflow.workers`)
	g, caller := NewWithT(t), f.on(c)
	id := caller.reserved()
	w := newID()
	g.Expect(caller.receive(id, w).verdict).To(Equal("start"))
	g.Expect(caller.accept(id, w).verdict).To(Equal("accepted"))
	g.Expect(caller.receive(id, w).verdict).To(Equal("acknowledged"))
	g.Expect(caller.reserve().decision).To(Equal("ready"))
	f.stop(w)
	f.due()
	g.Expect(caller.dismiss(caller.reserved(), "no")).To(BeTrue())
	g.Expect(caller.clear()).To(BeTrue())
	f.stop(caller.worker())

	for missing, grants := range map[string][]string{
		"EXECUTE":                    {`select, update on pgflow.worker_functions`, `select, insert, update on pgflow.workers`},
		"SELECT on worker_functions": {execute, `update on pgflow.worker_functions`, `select, insert, update on pgflow.workers`},
		"UPDATE on worker_functions": {execute, `select on pgflow.worker_functions`, `select, insert, update on pgflow.workers`},
	} {
		_, c := d.role(t, grants...)
		f.due()
		f.unchanged(func() {
			_, err := f.on(c).tryReserve()
			g.Expect(code(err)).To(Equal("42501"), "reserve without "+missing)
		})
	}
	_, c = d.role(t, execute, `select, update on pgflow.worker_functions`, `select on pgflow.workers`)
	f.due()
	id = f.reserved()
	f.unchanged(func() {
		_, err := f.on(c).tryAccept(id, newID())
		g.Expect(code(err)).To(Equal("42501"), "accept without INSERT on workers")
	})
}

// Who may read the view reads it, without rights on what is behind it.
func TestAReaderNeedsTheViewAlone(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	_, c := d.role(t, `select on pgflow.worker_function_states`)
	NewWithT(t).Expect(d.function(t, "").on(c).state().phase).To(Equal("retryable"))
}

// Trigger functions are SECURITY DEFINER: a role which could insert a worker before still can, and stop it.
func TestARoleThatCanOnlyInsertWorkersStillCan(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	g := NewWithT(t)
	_, c := d.role(t, `insert on pgflow.workers`)
	f := d.function(t, "")
	inserter := f.on(c)
	w := newID()
	must(t, inserter.insert(w, ""))
	g.Expect(f.state().ready).To(Equal(w))
	f.stop(w)
	id := f.reserved()
	w = newID()
	must(t, inserter.insert(w, id))
	g.Expect([]any{f.state().ready, f.state().verified}).To(Equal([]any{w, true}))
	refusedFor(t, inserter.insert(newID(), newID()), "unknown")
	must(t, d.unregistered(t, "nobody").on(c).insert(newID(), ""))

	_, c = d.role(t, `select, update, delete on pgflow.workers`)
	f.on(c).beat(w)
	f.on(c).deprecate(w)
	f.on(c).stop(w)
	_, err := c.Exec(t.Context(), `delete from pgflow.workers where worker_id = $1`, w)
	must(t, err)
	_, c = d.role(t, `select, insert, update, delete on pgflow.worker_functions`)
	f.on(c).set(`enabled = false`)
	_, err = c.Exec(t.Context(), `insert into pgflow.worker_functions (function_name) values ('by a role')`)
	must(t, err)
	_, err = c.Exec(t.Context(), `delete from pgflow.worker_functions`)
	must(t, err)
}

// Nothing for PUBLIC, anon or authenticated, even where default privileges would give them everything.
func TestNothingForEverybody(t *testing.T) {
	t.Parallel()
	d := empty(t)
	for _, role := range []string{"anon", "authenticated"} {
		d.exec(t, `do $$ begin create role `+role+`; exception when duplicate_object or unique_violation then null; end $$`)
		d.exec(t, `alter default privileges grant all on functions to `+role+`; alter default privileges grant all on tables to `+role+`;
			alter default privileges grant all on sequences to `+role)
	}
	_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{CreateBaseTables: true})
	must(t, err)
	for role, condition := range map[string]string{"PUBLIC": `a.grantee = 0`, "anon": `a.grantee = 'anon'::regrole`, "authenticated": `a.grantee = 'authenticated'::regrole`} {
		rows, err := d.pool.Query(t.Context(), `
			select p.oid::regprocedure::text, a.privilege_type from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
			where p.pronamespace = 'pgflow'::regnamespace and `+condition+`
			union all
			select c.oid::regclass::text, a.privilege_type from pg_class c,
				aclexplode(coalesce(c.relacl, acldefault(case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))) a
			where c.relnamespace = 'pgflow'::regnamespace and c.relkind in ('r', 'v', 'm', 'S') and `+condition)
		must(t, err)
		granted, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s string, err error) {
			var what, privilege string
			err = row.Scan(&what, &privilege)
			return privilege + " on " + what, err
		})
		must(t, err)
		NewWithT(t).Expect(granted).To(BeEmpty(), role)
	}
}

func TestSearchPathIsPinned(t *testing.T) {
	t.Parallel()
	d := empty(t)
	for _, sql := range pgflowTables(true) {
		d.exec(t, sql)
	}
	before := d.text(t, `select string_agg(oid::text, ',') from pg_proc where pronamespace = 'pgflow'::regnamespace`)
	_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{})
	must(t, err)
	NewWithT(t).Expect(d.text(t, `select string_agg(oid::regprocedure::text, ', ') from pg_proc
		where pronamespace = 'pgflow'::regnamespace and not oid::text = any (string_to_array($1, ','))
		and not coalesce(proconfig, '{}') @> array['search_path=pg_catalog, pg_temp']`, before)).To(BeEmpty(), "not pinned")
	NewWithT(t).Expect(d.text(t, `select string_agg(p.oid::regprocedure::text, ', ') from pg_proc p
		where pronamespace = 'pgflow'::regnamespace and not oid::text = any (string_to_array($1, ','))
		and prosecdef and prorettype <> 'trigger'::regtype`, before)).To(Equal("pgflow.handshake_state(text)"), "the one definition of the state, for view and operations alike")
	NewWithT(t).Expect(d.text(t, `select string_agg(tgname, ', ') from pg_trigger t join pg_proc p on p.oid = tgfoid
		where not tgisinternal and (tgenabled <> 'O' or not prosecdef)`)).To(BeEmpty(), "triggers are plain, their functions SECURITY DEFINER")
}

// Whoever calls, with whatever schema first in the search path: an operator, a function or a table there has no effect.
func TestAMaliciousSearchPathHasNoEffect(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	g := NewWithT(t)
	c := d.connect(t)
	_, err := c.Exec(t.Context(), `create schema evil;
		create function evil.raise(text, text) returns boolean language plpgsql as $$ begin raise 'evil operator'; end $$;
		create function evil.raise(timestamptz, timestamptz) returns boolean language plpgsql as $$ begin raise 'evil operator'; end $$;
		create function evil.raise(uuid, uuid) returns boolean language plpgsql as $$ begin raise 'evil operator'; end $$;
		create function evil.raise(timestamptz, interval) returns timestamptz language plpgsql as $$ begin raise 'evil operator'; end $$;
		create operator evil.= (leftarg = text, rightarg = text, function = evil.raise);
		create operator evil.<> (leftarg = text, rightarg = text, function = evil.raise);
		create operator evil.= (leftarg = uuid, rightarg = uuid, function = evil.raise);
		create operator evil.<> (leftarg = uuid, rightarg = uuid, function = evil.raise);
		create operator evil.< (leftarg = timestamptz, rightarg = timestamptz, function = evil.raise);
		create operator evil.> (leftarg = timestamptz, rightarg = timestamptz, function = evil.raise);
		create operator evil.<= (leftarg = timestamptz, rightarg = timestamptz, function = evil.raise);
		create operator evil.>= (leftarg = timestamptz, rightarg = timestamptz, function = evil.raise);
		create operator evil.+ (leftarg = timestamptz, rightarg = interval, function = evil.raise);
		create operator evil.- (leftarg = timestamptz, rightarg = interval, function = evil.raise);
		create function evil.now() returns timestamptz language plpgsql as $$ begin raise 'evil function'; end $$;
		create function evil.clock_timestamp() returns timestamptz language plpgsql as $$ begin raise 'evil function'; end $$;
		create function evil.gen_random_uuid() returns uuid language plpgsql as $$ begin raise 'evil function'; end $$;
		create function evil.pg_notify(text, text) returns void language plpgsql as $$ begin raise 'evil function'; end $$;
		create function evil.octet_length(text) returns integer language plpgsql as $$ begin raise 'evil function'; end $$;
		create function evil.to_jsonb(anyelement) returns jsonb language plpgsql as $$ begin raise 'evil function'; end $$;
		create table evil.worker_functions (like pgflow.worker_functions);
		create table evil.workers (like pgflow.workers);
		create temp table worker_functions (like pgflow.worker_functions);
		create temp table workers (like pgflow.workers);
		create temp table worker_function_states (function_name text);
		set search_path = pg_temp, evil, pg_catalog`)
	must(t, err)
	f := d.function(t, "")
	f.q = c
	id := f.reserved()
	g.Expect(f.receive(id, newID()).verdict).To(Equal("start"))
	w := newID()
	g.Expect(f.accept(id, w)).To(Equal(answer{verdict: "accepted", ready: w}))
	g.Expect(f.reserve()).To(Equal(reservation{decision: "ready", ready: w}))
	_, err = c.Exec(t.Context(), `update pgflow.workers set stopped_at = pg_catalog.clock_timestamp()`)
	must(t, err)
	g.Expect(f.clear()).To(BeTrue())
	g.Expect(f.dismiss(f.reserved(), "no")).To(BeTrue())
	must(t, f.insert(newID(), ""))
	_, err = c.Exec(t.Context(), `delete from pgflow.workers`)
	must(t, err)
	var phase string
	must(t, c.QueryRow(t.Context(), `select phase from pgflow.worker_function_states`).Scan(&phase))
	g.Expect(phase).To(Equal("retryable"))
}
