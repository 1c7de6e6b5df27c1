package pgstate_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

var (
	invocationID = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	olderID      = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	workerID     = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	lastID       = uuid.MustParse("44444444-4444-4444-8444-444444444444")
)

// seed stores rows as they are, past the triggers and their clock.
func seed(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	run(t, pool, `BEGIN; SET LOCAL session_replication_role = replica; `+sql+`; COMMIT`)
}

func TestStatesReadsTheWholeRow(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	seed(t, pool, `
		INSERT INTO pgflow.worker_functions (function_name, debounce, pending_timeout, heartbeat_timeout, handshake, enabled,
			start_mode, last_invoked_at, invocation_id, invocation_expires_at, failed_starts,
			last_invocation_id, last_outcome, last_outcome_reason, last_outcome_at, last_worker_id)
		VALUES ('f', '2.5 s', '90 s', '45 s', 'required', true, 'http', now() - interval '10 s',
			'11111111-1111-4111-8111-111111111111', '2100-01-02 03:04:05.678901Z', 2,
			'22222222-2222-4222-8222-222222222222', 'dismissed', 'http_418', '2001-02-03 04:05:06.000001Z',
			'44444444-4444-4444-8444-444444444444');
		INSERT INTO pgflow.workers (worker_id, queue_name, function_name, invocation_id, started_at, last_heartbeat_at, stopped_at)
		VALUES ('44444444-4444-4444-8444-444444444444', 'q', 'f', '22222222-2222-4222-8222-222222222222',
			'2001-01-01 00:00:00Z', '2001-01-01 00:00:07Z', '2001-01-01 00:00:08Z')`)
	want := pgstate.State{
		FunctionName: "f", Enabled: true, StartMode: "http", Handshake: "required", Phase: pgstate.PhasePending,
		Debounce: 2500 * time.Millisecond, PendingTimeout: 90 * time.Second, HeartbeatTimeout: 45 * time.Second,
		TakesPart: true, FailedStarts: 2,
		Invocation: &pgstate.Invocation{
			ID: invocationID, ExpiresAt: time.Date(2100, 1, 2, 3, 4, 5, 678901000, time.UTC),
		},
		LastInvocationID: olderID, LastOutcome: "dismissed", LastOutcomeReason: "http_418",
		LastOutcomeAt: time.Date(2001, 2, 3, 4, 5, 6, 1000, time.UTC),
		LastWorker: &pgstate.EndedWorker{
			ID: lastID, StartedAt: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC),
			EndedAt: time.Date(2001, 1, 1, 0, 0, 8, 0, time.UTC), Verified: true,
		},
	}
	wantState(t, pool, want)

	// The same, ready.
	seed(t, pool, `INSERT INTO pgflow.workers (worker_id, queue_name, function_name, started_at, last_heartbeat_at)
		VALUES ('33333333-3333-4333-8333-333333333333', 'q', 'f', '2020-01-01Z', date_trunc('second', now()))`)
	beat := query[time.Time](t, pool, `SELECT last_heartbeat_at FROM pgflow.workers WHERE stopped_at IS NULL`)
	want.Phase = pgstate.PhaseReady
	want.ReadyWorker = &pgstate.Worker{
		ID: workerID, StartedAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), LastHeartbeatAt: beat.UTC(),
	}
	wantState(t, pool, want)
}

func TestStatesOfAFreshRegistration(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	register(t, pgstate.NewStore(pool), "f")
	wantState(t, pool, pgstate.State{
		FunctionName: "f", Enabled: true, StartMode: "http", Handshake: "permissive", Phase: pgstate.PhaseRetryable,
		Debounce: 6 * time.Second, PendingTimeout: time.Minute, HeartbeatTimeout: 30 * time.Second,
	})
}

func TestStatesKnowWhenTheLastWorkerEnded(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	at := func(second int) time.Time { return time.Date(2001, 1, 1, 0, 0, second, 0, time.UTC) }
	for name, test := range map[string]struct {
		function, times string // stopped_at, deprecated_at, last_heartbeat_at
		want            time.Time
		absent          bool
	}{
		"stopped":              {times: `'2001-01-01 00:00:05Z', NULL, '2001-01-01Z'`, want: at(5)},
		"deprecated":           {times: `NULL, '2001-01-01 00:00:06Z', '2001-01-01Z'`, want: at(6)},
		"deprecated, stopped":  {times: `'2001-01-01 00:00:07Z', '2001-01-01 00:00:06Z', '2001-01-01Z'`, want: at(6)},
		"silent":               {times: `NULL, NULL, '2001-01-01Z'`, want: at(30)},
		"silent, then stopped": {times: `'2001-01-01 01:00:00Z', NULL, '2001-01-01Z'`, want: at(30)},
		"beat in the future":   {times: `NULL, NULL, '2100-01-01Z'`},
		"beat never":           {times: `NULL, NULL, '-infinity'`},
		"another function's":   {function: "another", times: `NULL, NULL, '2001-01-01Z'`, absent: true},
	} {
		function := name
		if test.function != "" {
			function = test.function
		}
		id := uuid.NewString()
		seed(t, pool, fmt.Sprintf(`
			INSERT INTO pgflow.worker_functions (function_name, last_worker_id) VALUES ($$%s$$, '%s');
			INSERT INTO pgflow.workers (worker_id, queue_name, function_name, stopped_at, deprecated_at, last_heartbeat_at)
			VALUES ('%s', 'q', $$%s$$, %s)`, name, id, id, function, test.times))
		snapshot, err := pgstate.NewStore(pool).StatesOf(t.Context(), []string{name})
		must(t, err)
		if len(snapshot.States) != 1 {
			t.Fatalf("%s: %+v", name, snapshot)
		}
		last := snapshot.States[0].LastWorker
		if (last == nil) != test.absent || last != nil && !last.EndedAt.Equal(test.want) {
			t.Errorf("%s: %+v, want %s", name, last, test.want)
		}
	}
}

func TestStatesAndStatesOfSelect(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	store := pgstate.NewStore(pool)
	names := []string{"a", `b,"{}\`, "c'", "ü NULL"}
	empty, err := store.States(t.Context())
	must(t, err)
	if len(empty.States) != 0 || !near(empty.Now, query[time.Time](t, pool, `SELECT now()`)) {
		t.Fatalf("of none: %+v", empty)
	}
	for _, name := range names {
		register(t, store, name)
	}
	for _, test := range []struct{ ask, want []string }{
		{ask: nil},
		{ask: []string{}},
		{ask: []string{"nobody"}},
		{ask: names[1:2], want: names[1:2]},
		{ask: append([]string{"nobody"}, names...), want: names},
		{ask: []string{"a", "a"}, want: names[:1]},
	} {
		snapshot, err := store.StatesOf(t.Context(), test.ask)
		must(t, err)
		if got := functions(snapshot); !slices.Equal(got, test.want) || snapshot.Now.IsZero() {
			t.Errorf("of %q: %q at %s", test.ask, got, snapshot.Now)
		}
	}
	all, err := store.States(t.Context())
	must(t, err)
	if got := functions(all); !slices.Equal(got, names) {
		t.Errorf("all: %q", got)
	}
}

// A person with psql can store anything the columns allow; one such row must
// not hide all the others.
func TestStatesSurviveStrangeValues(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	seed(t, pool, `
		INSERT INTO pgflow.worker_functions (function_name, debounce, last_invoked_at, last_outcome_at, last_worker_id,
			invocation_id, invocation_expires_at, failed_starts)
		VALUES ('f', '900000 years', 'infinity', '-infinity', '44444444-4444-4444-8444-444444444444', gen_random_uuid(), 'infinity', 2000000000),
		       ('g', '1 month 2 days 3 hours', '-infinity', 'infinity', NULL, gen_random_uuid(), '-infinity', 0),
		       ('h', '5 min', '0044-03-15 BC', '294276-12-31', NULL, NULL, NULL, -2147483648),
		       ('i', '300000 years', now(), '0044-03-15 BC', NULL, NULL, NULL, 2147483647);
		INSERT INTO pgflow.workers (worker_id, queue_name, function_name, started_at, deprecated_at, stopped_at, last_heartbeat_at)
		VALUES ('44444444-4444-4444-8444-444444444444', 'q', 'f', '-infinity', 'infinity', 'infinity', 'infinity')`)
	snapshot, err := pgstate.NewStore(pool).States(t.Context())
	must(t, err)
	if got := functions(snapshot); !slices.Equal(got, []string{"f", "g", "h", "i"}) {
		t.Fatalf("%q", got)
	}
	for _, state := range snapshot.States {
		if state.FunctionName == "g" && state.Debounce != (32*24+3)*time.Hour {
			t.Errorf("debounce %s", state.Debounce)
		}
		if (state.FunctionName == "f" || state.FunctionName == "i") && state.Debounce < 50*365*24*time.Hour {
			t.Errorf("debounce %s", state.Debounce)
		}
		// What an API object cannot show is not read.
		if !state.LastOutcomeAt.IsZero() || state.RetryAt.Year() > 9999 {
			t.Errorf("%s: last outcome at %v, retry at %v", state.FunctionName, state.LastOutcomeAt, state.RetryAt)
		}
	}
}

// What is read does not depend on how the database likes to write it.
func TestStatesDoNotDependOnSettings(t *testing.T) {
	t.Parallel()
	url, pool := migrated(t)
	store := pgstate.NewStore(pool)
	register(t, store, "f")
	_, err := store.Reserve(t.Context(), "f")
	must(t, err)
	plain, err := store.States(t.Context())
	must(t, err)

	run(t, pool, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET datestyle = ''German, DMY''', current_database());
		EXECUTE format('ALTER DATABASE %I SET intervalstyle = ''sql_standard''', current_database());
		EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Kathmandu''', current_database());
		EXECUTE format('ALTER DATABASE %I SET extra_float_digits = -15', current_database());
		EXECUTE format('ALTER DATABASE %I SET search_path = ''public''', current_database());
	END $$`)
	odd := open(t, url)
	if style := query[string](t, odd, `SHOW datestyle`); style != "German, DMY" {
		t.Fatalf("datestyle %q", style)
	}
	snapshot, err := pgstate.NewStore(odd).States(t.Context())
	must(t, err)
	if !reflect.DeepEqual(snapshot.States, plain.States) || !near(snapshot.Now, plain.Now) {
		t.Fatalf("\n got %+v\nwant %+v", snapshot, plain)
	}
	reservation, err := pgstate.NewStore(odd).Reserve(t.Context(), "f")
	must(t, err)
	if !reservation.ExpiresAt.Equal(plain.States[0].Invocation.ExpiresAt) {
		t.Fatalf("%+v, want the expiry of %+v", reservation, plain.States[0].Invocation)
	}
	must(t, migrateAgain(t, url))
}

func migrateAgain(t *testing.T, url string) error {
	t.Helper()
	_, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{})
	return err
}

// The read is done every few seconds for as long as the operator runs, beside
// a table of dead workers that nobody prunes.
func BenchmarkStates(b *testing.B) {
	_, pool := migrated(b)
	_, err := pool.Exec(b.Context(), `
		BEGIN; SET LOCAL session_replication_role = replica;
		INSERT INTO pgflow.worker_functions (function_name, last_worker_id)
		SELECT 'function-' || i, gen_random_uuid() FROM generate_series(1, 10000) i;
		INSERT INTO pgflow.workers (worker_id, queue_name, function_name, last_heartbeat_at)
		SELECT f.last_worker_id, 'q', f.function_name, now() + interval '4 s' FROM pgflow.worker_functions f;
		INSERT INTO pgflow.workers (worker_id, queue_name, function_name, started_at, last_heartbeat_at, stopped_at)
		SELECT gen_random_uuid(), 'q', 'function-' || 1 + i % 10000, now() - interval '1 day', now() - interval '1 day', now() - interval '1 day'
		FROM generate_series(1, 200000) i;
		COMMIT`)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), `VACUUM ANALYZE`); err != nil {
		b.Fatal(err)
	}
	store := pgstate.NewStore(pool)
	b.ReportAllocs()
	for b.Loop() {
		snapshot, err := store.States(b.Context())
		if err != nil || len(snapshot.States) != 10000 {
			b.Fatal(len(snapshot.States), err)
		}
	}
}

func wantState(t *testing.T, pool *pgxpool.Pool, want pgstate.State) {
	t.Helper()
	snapshot, err := pgstate.NewStore(pool).States(t.Context())
	must(t, err)
	if len(snapshot.States) != 1 || !reflect.DeepEqual(snapshot.States[0], want) {
		t.Fatalf("\n got %s\nwant %s", describe(snapshot.States), describe([]pgstate.State{want}))
	}
	if now := query[time.Time](t, pool, `SELECT clock_timestamp()`); !near(snapshot.Now, now) {
		t.Fatalf("clock %s, want %s", snapshot.Now, now)
	}
}

// describe prints what the pointers point to, too.
func describe(states []pgstate.State) string {
	text := ""
	for _, s := range states {
		text += fmt.Sprintf("%+v ready %+v invocation %+v last %+v\n", s, s.ReadyWorker, s.Invocation, s.LastWorker)
	}
	return text
}

func functions(snapshot pgstate.Snapshot) []string {
	var names []string
	for _, state := range snapshot.States {
		names = append(names, state.FunctionName)
	}
	slices.Sort(names)
	return names
}
