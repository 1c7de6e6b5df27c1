package main

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
)

// optionsFor drives the function at endpoint.
func optionsFor(t *testing.T, database, endpoint string) options {
	t.Helper()
	parsed, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return options{endpoints: []*url.URL{parsed}, key: key, function: function, databaseURL: database,
		timeout: 20 * time.Second}
}

// only are the named cases.
func only(names ...string) (some []testCase) {
	for _, c := range cases() {
		for _, name := range names {
			if c.name == name {
				some = append(some, c)
			}
		}
	}
	return some
}

// registrations and workers of the database, and what of the kit's is left in it, as text.
func contents(t *testing.T, pool *pgxpool.Pool) (all string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `SELECT concat_ws(' ',
		(SELECT jsonb_agg(f ORDER BY f.function_name) FROM pgflow.worker_functions f),
		(SELECT jsonb_agg(w ORDER BY w.worker_id) FROM pgflow.workers w),
		(SELECT string_agg(tgname, ' ') FROM pg_trigger WHERE tgname LIKE '%conformance%'),
		(SELECT string_agg(proname, ' ') FROM pg_proc WHERE proname LIKE 'conformance%'))`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func change(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

const (
	register = `INSERT INTO pgflow.worker_functions (function_name, debounce, pending_timeout, handshake, enabled)
		VALUES ('` + function + `', '7 s', '8 s', 'required', false)`
	aWorker = `INSERT INTO pgflow.workers (queue_name, worker_id, function_name, invocation_id, stopped_at)
		VALUES ('q', gen_random_uuid(), '` + function + `', NULL, `
)

func TestRestores(t *testing.T) {
	t.Parallel()
	for _, before := range []struct{ what, sql string }{
		{"no registration", `SELECT`},
		{"a registration", register},
		{"another function", strings.Replace(register, function, "another", 1)},
	} {
		t.Run(before.what, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			database, pool := migrated(t)
			change(t, pool, before.sql)
			found := contents(t, pool)
			endpoint := runtime(t, database, none)
			r, err := run(t.Context(), optionsFor(t, database, endpoint), only("start", "busy-loop", "foreign", "failed-start",
				"ended", "lost-answer", "unregistered"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(r.Passed).To(Equal(7), r.table())
			g.Expect(contents(t, pool)).To(Equal(found))
		})
	}
}

func TestRestoresWhenInterrupted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	database, pool := migrated(t)
	change(t, pool, register)
	found := contents(t, pool)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	interrupted := testCase{name: "interrupted", run: func(c *trial) {
		c.serves(0, "answer")
		c.step(func() error { return c.refuseWorkers(c.ctx) })
		g.Expect(contents(t, pool)).To(ContainSubstring("conformance_"))
		c.step(func() error { return c.newGate().hold(c.ctx) })
		g.Expect(c.err).NotTo(HaveOccurred())
		cancel(errors.New("by the test"))
	}}
	_, err := run(ctx, optionsFor(t, database, runtime(t, database, none)), append([]testCase{interrupted}, cases()...))
	g.Expect(err).To(MatchError("interrupted: by the test"))
	g.Expect(contents(t, pool)).To(Equal(found))
}

// TestRefuses what is not the kit's to end, unless it is forced.
func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, sql, complaint string }{
		{"a healthy worker", aWorker + `NULL)`, "has a healthy worker"},
		{"a pending invocation", `SELECT pgflow.reserve_invocation('` + function + `')`, "has a pending invocation"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			database, pool := migrated(t)
			change(t, pool, `INSERT INTO pgflow.worker_functions (function_name) VALUES ($1)`, function)
			change(t, pool, aWorker+`now())`)
			change(t, pool, c.sql)
			found := contents(t, pool)
			o := optionsFor(t, database, runtime(t, database, none))
			_, err := run(t.Context(), o, only("start"))
			g.Expect(err).To(MatchError(And(ContainSubstring(c.complaint), ContainSubstring("--force"))))
			g.Expect(contents(t, pool)).To(Equal(found))
			o.force = true
			r, err := run(t.Context(), o, only("start"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(r.Passed).To(Equal(1), r.table())
		})
	}
	t.Run("a second run at the same time", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		database, _ := migrated(t)
		o := optionsFor(t, database, runtime(t, database, none))
		_, err := run(t.Context(), o, []testCase{{name: "nested", run: func(*trial) {
			_, err := run(t.Context(), o, only("start"))
			g.Expect(err).To(MatchError(ContainSubstring("another run of the kit is at work")))
		}}})
		g.Expect(err).NotTo(HaveOccurred())
	})
}

// TestSkips what cannot be driven, with what would help.
func TestSkips(t *testing.T) {
	t.Parallel()
	t.Run("with one endpoint", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		database, _ := migrated(t)
		r, err := run(t.Context(), optionsFor(t, database, runtime(t, database, none)), only("two-runtimes"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(r.Skipped).To(Equal(1), r.table())
		g.Expect(r.Cases[0].Reason).To(ContainSubstring("--endpoint"))
	})
	t.Run("with a role that does not own the table", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		database, pool := migrated(t)
		change(t, pool, `CREATE ROLE tester LOGIN PASSWORD 'tester'`)
		t.Cleanup(func() {
			_, err := pool.Exec(context.WithoutCancel(t.Context()), `DROP OWNED BY tester; DROP ROLE tester`)
			g.Expect(err).NotTo(HaveOccurred())
		})
		change(t, pool, `GRANT USAGE ON SCHEMA pgflow TO tester`)
		change(t, pool, `GRANT SELECT, INSERT, UPDATE, DELETE ON pgflow.worker_functions, pgflow.workers TO tester`)
		change(t, pool, `GRANT SELECT ON pgflow.worker_function_states TO tester`)
		change(t, pool, `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgflow TO tester`)
		theirs, err := url.Parse(database)
		g.Expect(err).NotTo(HaveOccurred())
		theirs.User = url.UserPassword("tester", "tester")
		r, err := run(t.Context(), optionsFor(t, theirs.String(), runtime(t, database, none)), only("busy-loop", "slow-boot",
			"failed-start", "lost-answer"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(r.with(skipped)).To(Equal([]string{"busy-loop", "failed-start", "lost-answer"}), r.table())
		g.Expect(r.with(passed)).To(Equal([]string{"slow-boot"}), r.table())
		g.Expect(contents(t, pool)).To(BeEmpty())
	})
}

// TestLegacyWorkers take no part, which shows.
func TestLegacyWorkers(t *testing.T) {
	t.Parallel()
	for _, kind := range []edgeruntime.Kind{edgeruntime.Legacy014, edgeruntime.Legacy015} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			database, _ := migrated(t)
			o := optionsFor(t, database, standIn(t, database, kind))
			r, err := run(t.Context(), o, only("start", "late", "unknown", "malformed"))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(r.Failed).To(Equal(4), r.table())
		})
	}
}

func TestUnreachableWorker(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	database, _ := migrated(t)
	r, err := run(t.Context(), optionsFor(t, database, "http://127.0.0.1:1"), only("start", "unknown"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Failed).To(Equal(2), r.table())
	g.Expect(r.table()).To(ContainSubstring("connection refused"))
}

// TestCommand has what the program says and how it ends.
func TestCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, complaint string
		code            int
		args            []string
	}{
		{"help", "The worker needs no test hooks.", exitPassed, []string{"--help"}},
		{"nothing", "--function is needed", exitNotRun, nil},
		{"an endpoint that is none", "not an http or https URL", exitNotRun, []string{"--endpoint", "localhost:9000"}},
		{"three endpoints", "--endpoint is needed once, or twice", exitNotRun,
			[]string{"--endpoint", "http://a", "--endpoint", "http://b", "--endpoint", "http://c"}},
		{"a key file that is missing", "no such file", exitNotRun, []string{"--key-file", "/nowhere/key"}},
		{"an argument too many", `"more"`, exitNotRun, []string{"more"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var out, stderr strings.Builder
			g.Expect(command(t.Context(), c.args, &out, &stderr)).To(Equal(c.code))
			g.Expect(stderr.String()).To(ContainSubstring(c.complaint))
			g.Expect(out.String()).To(BeEmpty())
		})
	}
	t.Run("a database without the handshake", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		code, _, stderr := drive(t, pgtest.NewDatabase(t), []string{"http://127.0.0.1:1"})
		g.Expect(code).To(Equal(exitNotRun))
		g.Expect(stderr).To(ContainSubstring("manager migrate"))
	})
}

func TestTable(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := reportOf("f", []result{
		{Case: "one", Outcome: failed, Checks: []check{{"answer", "200", "200", true}, {"workers", "0", "1", false}}},
		{Case: "two", About: "needs more", Outcome: skipped, Reason: "give more"},
	}, time.Second)
	g.Expect("\n" + r.table()).To(Equal(`
CASE  EXPECTED     SEEN                PASSED
one   answer: 200  200                 yes
      workers: 0   1                   NO
two   needs more   skipped: give more  -

f: 0 cases passed, 1 failed, 1 skipped, 1.0 s
`))
}
