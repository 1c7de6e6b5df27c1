package contract_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func (d *database) migrate(t testing.TB, options pgstate.MigrateOptions) []string {
	t.Helper()
	applied, err := pgstate.Migrate(t.Context(), d.url, options)
	must(t, err)
	return applied
}

// current expects that what is installed is what this build has.
func (d *database) current(t testing.TB) {
	t.Helper()
	v, err := pgstate.Check(t.Context(), d.pool)
	must(t, err)
	NewWithT(t).Expect(v.Current).To(Equal(v.Latest))
}

// starts expects that the handshake works from end to end.
func (d *database) starts(t testing.TB) {
	t.Helper()
	f := d.function(t, "")
	id, w := f.admitted()
	NewWithT(t).Expect([]string{f.state().ready, f.row().lastID}).To(Equal([]string{w, id}))
}

// both runs a test with pgflow's tables before and after it added start_mode.
func both(t *testing.T, test func(t *testing.T, d *database)) {
	for _, startMode := range []bool{false, true} {
		t.Run(fmt.Sprintf("start_mode %t", startMode), func(t *testing.T) {
			t.Parallel()
			test(t, pgflow(t, startMode))
		})
	}
}

func TestInstallingOnNothingRefusesAndSaysSo(t *testing.T) {
	t.Parallel()
	d := empty(t)
	before := d.catalogue(t)
	for range 2 {
		_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("pgflow is not installed")))
		sameCatalogue(t, d.catalogue(t), before, "nothing changed")
	}
	v, err := pgstate.Check(t.Context(), d.pool)
	must(t, err)
	NewWithT(t).Expect(v.Current).To(BeNumerically("<", v.Latest))
}

func TestInstallingOnHalfOfPgflowRefuses(t *testing.T) {
	t.Parallel()
	for _, drop := range []string{`table pgflow.workers`, `table pgflow.worker_functions`} {
		d := pgflow(t, true)
		d.exec(t, `drop `+drop+` cascade`)
		before := d.catalogue(t)
		_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("pgflow")))
		sameCatalogue(t, d.catalogue(t), before, "nothing changed")
	}
}

func TestBaseTablesForTrials(t *testing.T) {
	t.Parallel()
	d := empty(t)
	d.migrate(t, pgstate.MigrateOptions{CreateBaseTables: true})
	g := NewWithT(t)
	f := d.unregistered(t, "tracked")
	mode := func() string {
		return d.text(t, `select start_mode || ' ' || enabled from pgflow.worker_functions where function_name = 'tracked'`)
	}
	for _, step := range [][2]string{
		{`select pgflow.track_worker_function('tracked')`, "http true"},
		{`select pgflow.track_worker_function('tracked', 'process')`, "process true"},
		{`select pgflow.track_worker_function('tracked')`, "http true"},
	} {
		d.exec(t, step[0])
		g.Expect(mode()).To(Equal(step[1]), step[0])
	}
	w := f.worker()
	d.exec(t, `select pgflow.mark_worker_stopped($1)`, w)
	g.Expect(f.state().ready).To(BeEmpty())
	_, err := d.pool.Exec(t.Context(), `update pgflow.worker_functions set debounce = interval '0.5 s'`)
	g.Expect(code(err)).To(Equal("23514"))
	_, err = d.pool.Exec(t.Context(), `update pgflow.worker_functions set start_mode = 'magic'`)
	g.Expect(code(err)).To(Equal("23514"))
	pgflowLives(t, d.connect(t))

	// Where pgflow is there already the option creates nothing.
	with, without := pgflow(t, false), pgflow(t, false)
	with.migrate(t, pgstate.MigrateOptions{CreateBaseTables: true})
	without.migrate(t, pgstate.MigrateOptions{})
	sameCatalogue(t, with.catalogue(t), without.catalogue(t), "--create-base-tables beside pgflow")
}

// Repeatable, from any number of callers at once, keeping every row.
func TestInstallingIsRepeatable(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, d *database) {
		g := NewWithT(t)
		g.Expect(d.migrate(t, pgstate.MigrateOptions{})).NotTo(BeEmpty())
		d.current(t)
		d.starts(t)
		f := d.function(t, "")
		id := f.reserved()
		installed := d.catalogue(t)
		f.unchanged(func() {
			for range 2 {
				g.Expect(d.migrate(t, pgstate.MigrateOptions{})).To(BeEmpty())
				sameCatalogue(t, d.catalogue(t), installed, "installing again")
			}
		})
		g.Expect(f.accept(id, newID()).verdict).To(Equal("accepted"))
	})
}

func TestInstallingFromFiveCallersAtOnce(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, d *database) {
		type result struct {
			applied []string
			err     error
		}
		results := make(chan result)
		for range 5 {
			go func() {
				applied, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{})
				results <- result{applied, err}
			}()
		}
		times := map[string]int{}
		for range 5 {
			r := <-results
			must(t, r.err)
			for _, name := range r.applied {
				times[name]++
			}
		}
		NewWithT(t).Expect(times).NotTo(BeEmpty())
		for name, n := range times {
			NewWithT(t).Expect(n).To(Equal(1), name)
		}
		d.current(t)
		d.starts(t)
	})
}

const oldRows = `select md5(string_agg(concat_ws('|', worker_id, queue_name, function_name, started_at, deprecated_at, stopped_at, last_heartbeat_at), ',' order by worker_id))
	|| (select md5(string_agg(concat_ws('|', function_name, enabled, debounce, last_invoked_at, created_at), ',' order by function_name)) from pgflow.worker_functions) from pgflow.workers`

// 10,000 old rows are kept as they are, and nobody of pgflow's own is held up: not while installing nor uninstalling.
func TestInstallingBesideALivePgflow(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, d *database) {
		g := NewWithT(t)
		d.exec(t, `insert into pgflow.worker_functions (function_name, last_invoked_at) select 'old ' || n, now() - n * interval '1 min' from generate_series(1, 100) n;
			insert into pgflow.workers (worker_id, queue_name, function_name, started_at, stopped_at, last_heartbeat_at)
			select gen_random_uuid(), 'q', 'old ' || n % 110, now() - n * interval '1 min', now() - (n - 1) * interval '1 min', now() - n * interval '1 min' from generate_series(1, 9999) n;
			insert into pgflow.workers (worker_id, queue_name, function_name) values (gen_random_uuid(), 'q', 'old 1')`)
		pgflowLives(t, d.connect(t))
		before, rows := d.catalogue(t), d.text(t, oldRows)

		stop, slowest := make(chan struct{}), make(chan time.Duration, 1)
		c := d.connect(t)
		go func() { // an old worker beats and an old tick ticks all the while
			var worst time.Duration
			for {
				select {
				case <-stop:
					slowest <- worst
					return
				default:
				}
				began := time.Now()
				for _, sql := range []string{
					`update pgflow.workers set last_heartbeat_at = last_heartbeat_at where function_name = 'old 1' and stopped_at is null returning deprecated_at is not null`,
					`update pgflow.worker_functions set enabled = enabled where function_name = 'old 1'`,
				} {
					_, err := c.Exec(t.Context(), sql)
					report(t, err)
				}
				worst = max(worst, time.Since(began))
			}
		}()
		for range 2 {
			d.migrate(t, pgstate.MigrateOptions{})
			g.Expect(d.text(t, oldRows)).To(Equal(rows), "every row is kept")
			g.Expect(d.text(t, `select phase || ' ' || verified from pgflow.worker_function_states where function_name = 'old 1'`)).To(Equal("ready false"))
			pgflowLivesIn(t, d)
			d.exec(t, `delete from pgflow.workers where function_name = 'pgflow''s own'`)
			d.exec(t, `delete from pgflow.worker_functions where function_name = 'pgflow''s own'`)
			must(t, pgstate.Uninstall(t.Context(), d.url))
			sameCatalogue(t, d.catalogue(t), before, "uninstalled")
			pgflowLivesIn(t, d)
			d.exec(t, `delete from pgflow.workers where function_name = 'pgflow''s own'`)
			d.exec(t, `delete from pgflow.worker_functions where function_name = 'pgflow''s own'`)
			rows = d.text(t, oldRows)
		}
		close(stop)
		g.Expect(<-slowest).To(BeNumerically("<", 5*time.Second), "the slowest round of pgflow's statements")
	})
}

func pgflowLivesIn(t testing.TB, d *database) {
	t.Helper()
	pgflowLives(t, d.connect(t))
}

// Somebody's long transaction delays the installation, not the workers behind it.
func TestInstallingBehindALongTransactionBlocksNobody(t *testing.T) {
	t.Parallel()
	d := pgflow(t, true)
	must(t, d.unregistered(t, "live").insertPublished(newID()))
	long := d.begin(t)
	_, err := long.Exec(t.Context(), `select from pgflow.workers; select from pgflow.worker_functions`)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	installed := make(chan error, 1)
	go func() {
		_, err := pgstate.Migrate(ctx, d.url, pgstate.MigrateOptions{})
		installed <- err
	}()
	d.waiting(t, 1)
	beats := d.connect(t)
	for range 20 {
		began := time.Now()
		_, err := beats.Exec(t.Context(), `update pgflow.workers set last_heartbeat_at = clock_timestamp() where function_name = 'live'`)
		must(t, err)
		NewWithT(t).Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second), "a heartbeat beside an installation that waits")
	}
	must(t, long.Rollback(t.Context()))
	must(t, <-installed)
	d.current(t)
	d.starts(t)
}

// insertPublished is the published workers' own statement.
func (f function) insertPublished(worker string) error {
	_, err := f.q.Exec(f.t.Context(), `insert into pgflow.workers (queue_name, worker_id, function_name) values ($1, $2, $3) returning *`, f.queue(), worker, f.name)
	return err
}

// Uninstalling drops exactly what is ours, whatever state it is in; installing again starts afresh.
func TestUninstallingLeavesTheCatalogueAsBefore(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, d *database) {
		before := d.catalogue(t)
		must(t, pgstate.Uninstall(t.Context(), d.url)) // nothing there: nothing to do
		sameCatalogue(t, d.catalogue(t), before, "uninstalling what is not there")
		var first []string
		for range 2 {
			d.migrate(t, pgstate.MigrateOptions{})
			if first == nil {
				first = d.catalogue(t)
			}
			sameCatalogue(t, d.catalogue(t), first, "installed again")
			d.starts(t)
			d.function(t, `handshake = 'required'`).reserved()
			for range 2 {
				must(t, pgstate.Uninstall(t.Context(), d.url))
				sameCatalogue(t, d.catalogue(t), before, "uninstalled")
			}
			pgflowLivesIn(t, d)
		}
	})
}

// It is what one runs before a pgflow upgrade that touches the same objects.
func TestUninstallUpgradePgflowInstall(t *testing.T) {
	t.Parallel()
	d, upgraded := pgflow(t, false), pgflow(t, true)
	d.migrate(t, pgstate.MigrateOptions{})
	must(t, pgstate.Uninstall(t.Context(), d.url))
	d.exec(t, addStartModeSQL)
	sameCatalogue(t, d.catalogue(t), upgraded.catalogue(t), "upgraded")
	d.migrate(t, pgstate.MigrateOptions{})
	d.starts(t)
}

// --print writes what people run themselves with psql: the same objects, and its version is recorded.
func TestPrintedSQLInstalls(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, d *database) {
		g := NewWithT(t)
		before := d.catalogue(t)
		d.psql(t, pgstate.PrintOptions{})
		d.current(t)
		d.starts(t)
		printed := d.catalogue(t)
		g.Expect(d.migrate(t, pgstate.MigrateOptions{})).To(BeEmpty())
		sameCatalogue(t, d.catalogue(t), printed, "migrating what was printed")
		must(t, pgstate.Uninstall(t.Context(), d.url))
		sameCatalogue(t, d.catalogue(t), before, "uninstalled")
		d.migrate(t, pgstate.MigrateOptions{})
		sameCatalogue(t, printed, d.catalogue(t), "printed as migrated")
	})
	t.Run("with base tables", func(t *testing.T) {
		d, want := empty(t), migrated(t)
		d.psql(t, pgstate.PrintOptions{CreateBaseTables: true})
		d.current(t)
		sameCatalogue(t, d.catalogue(t), want.catalogue(t), "printed as migrated")
		d.starts(t)
	})
}

// psql runs what Print writes, with the newest psql there is.
func (d *database) psql(t testing.TB, options pgstate.PrintOptions) {
	t.Helper()
	var script bytes.Buffer
	must(t, pgstate.Print(&script, options))
	command := "psql"
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/psql"); len(found) > 0 {
		command = found[len(found)-1]
	}
	cmd := exec.CommandContext(t.Context(), command, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", d.url, "-f", "-")
	cmd.Stdin = &script
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, strings.TrimSpace(string(out)))
	}
}
