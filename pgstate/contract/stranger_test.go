package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// ours are the objects that installing makes, found by comparing.
func ours(t testing.TB) []object {
	t.Helper()
	d := pgflow(t, true)
	before := d.objects(t)
	d.migrate(t, pgstate.MigrateOptions{})
	list := []object{}
	for o := range d.objects(t) {
		if !before[o] {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b object) int {
		return slices.Compare([]string{a.kind, a.table, a.name, a.arguments}, []string{b.kind, b.table, b.name, b.arguments})
	})
	return list
}

// A column, function, view, index or trigger of the name of one of ours that is not ours makes installing refuse, naming
// it, with nothing changed. So does each alone.
func TestStrangersOfOurNamesAreRefused(t *testing.T) {
	t.Parallel()
	list := ours(t)
	d := pgflow(t, true)
	d.exec(t, `create function public.stranger() returns trigger language plpgsql as 'begin return new; end'`)
	original := d.catalogue(t)
	kinds := map[string]int{}
	for _, o := range list {
		for _, stranger := range strangers(o) {
			kinds[o.kind]++
			d.exec(t, stranger.create)
			before := d.catalogue(t)
			_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{})
			if err == nil {
				t.Fatalf("installed over a stranger's %s", stranger.create)
			}
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(o.name)), stranger.create)
			sameCatalogue(t, d.catalogue(t), before, "nothing changed: "+stranger.create)
			d.exec(t, stranger.drop)
		}
	}
	sameCatalogue(t, d.catalogue(t), original, "strangers gone")
	for _, kind := range []string{"column", "function", "view", "index", "trigger"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s of ours was found", kind)
		}
	}
	d.migrate(t, pgstate.MigrateOptions{})
	d.starts(t)
}

type stranger struct{ create, drop string }

// strangers are the statements that make and drop things of the object's name.
func strangers(o object) []stranger {
	q := func(s string) string { return pgx.Identifier{s}.Sanitize() }
	name := q(o.name)
	switch o.kind {
	case "column":
		return []stranger{{fmt.Sprintf(`alter table pgflow.%s add column %s text`, q(o.table), name), fmt.Sprintf(`alter table pgflow.%s drop column %s`, q(o.table), name)}}
	case "function":
		made := []stranger{}
		for _, arguments := range []string{o.arguments, "line, box"} {
			if strings.Contains(arguments, "pgflow.") { // a type of ours: no stranger has it
				continue
			}
			made = append(made, stranger{
				fmt.Sprintf(`create function pgflow.%s(%s) returns setof integer language sql as 'select 1'`, name, arguments),
				fmt.Sprintf(`drop function pgflow.%s(%s)`, name, arguments),
			})
		}
		return made
	case "view":
		return []stranger{
			{fmt.Sprintf(`create view pgflow.%s as select 1 as one`, name), fmt.Sprintf(`drop view pgflow.%s`, name)},
			{fmt.Sprintf(`create table pgflow.%s (one integer)`, name), fmt.Sprintf(`drop table pgflow.%s`, name)},
		}
	case "index":
		return []stranger{{fmt.Sprintf(`create index %s on pgflow.%s (function_name)`, name, q(o.table)), fmt.Sprintf(`drop index pgflow.%s`, name)}}
	case "trigger":
		return []stranger{{fmt.Sprintf(`create trigger %s before update on pgflow.%s for each row execute function public.stranger()`, name, q(o.table)), fmt.Sprintf(`drop trigger %s on pgflow.%s`, name, q(o.table))}}
	}
	return nil
}

// Strangers of other names are none of our business, and survive.
func TestOtherStrangersSurvive(t *testing.T) {
	t.Parallel()
	d := pgflow(t, true)
	d.exec(t, `create function public.stranger() returns trigger language plpgsql as 'begin return new; end';
		create trigger mine before insert on pgflow.workers for each row execute function public.stranger();
		create index mine on pgflow.workers (function_name, started_at);
		alter table pgflow.workers add column mine text default 'mine';
		create view pgflow.my_view as select * from pgflow.worker_functions;
		create function pgflow.mine() returns integer language sql as 'select 1';
		create function public.reserve_invocation(text) returns integer language sql as 'select 1';
		create table public.worker_function_states (one integer);
		grant insert on pgflow.workers to public`)
	before := d.catalogue(t)
	d.migrate(t, pgstate.MigrateOptions{})
	d.starts(t)
	must(t, pgstate.Uninstall(t.Context(), d.url))
	sameCatalogue(t, d.catalogue(t), before, "uninstalled")
}
