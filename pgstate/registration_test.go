package pgstate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// row is what a registration's row holds, without what the handshake keeps there.
const row = `SELECT concat_ws(' ', enabled, start_mode, debounce, pending_timeout, heartbeat_timeout, handshake)
	FROM pgflow.worker_functions WHERE function_name = 'f'`

const defaults = "t http 00:00:06 00:01:00 00:00:30 permissive"

func TestCreateRegistrationLeavesTheRestToTheColumns(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	store := pgstate.NewStore(pool)
	created, err := store.CreateRegistration(t.Context(), "f", pgstate.Registration{})
	must(t, err)
	if !created {
		t.Fatal("not created")
	}
	wantEqual(t, "row", query[string](t, pool, row), defaults)

	created, err = store.CreateRegistration(t.Context(), "f", pgstate.Registration{Enabled: new(bool)})
	must(t, err)
	if created {
		t.Fatal("created twice")
	}
	wantEqual(t, "row after the second time", query[string](t, pool, row), defaults)
}

func TestCreateRegistrationSetsEveryField(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	created, err := pgstate.NewStore(pool).CreateRegistration(t.Context(), "f", everyField())
	must(t, err)
	if !created {
		t.Fatal("not created")
	}
	wantEqual(t, "row", query[string](t, pool, row), "f process 00:00:02.5 00:30:00 00:00:45.000001 required")
}

func TestUpdateRegistrationChangesOnlyWhatIsSet(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	store := pgstate.NewStore(pool)
	register(t, store, "f")
	all := everyField()
	for _, test := range []struct {
		set  pgstate.Registration
		want string
	}{
		{pgstate.Registration{}, defaults},
		{pgstate.Registration{Debounce: all.Debounce}, "t http 00:00:02.5 00:01:00 00:00:30 permissive"},
		{pgstate.Registration{PendingTimeout: all.PendingTimeout}, "t http 00:00:02.5 00:30:00 00:00:30 permissive"},
		{pgstate.Registration{HeartbeatTimeout: all.HeartbeatTimeout}, "t http 00:00:02.5 00:30:00 00:00:45.000001 permissive"},
		{pgstate.Registration{Handshake: all.Handshake}, "t http 00:00:02.5 00:30:00 00:00:45.000001 required"},
		{pgstate.Registration{StartMode: all.StartMode}, "t process 00:00:02.5 00:30:00 00:00:45.000001 required"},
		{pgstate.Registration{Enabled: all.Enabled}, "f process 00:00:02.5 00:30:00 00:00:45.000001 required"},
	} {
		before := query[time.Time](t, pool, `SELECT updated_at FROM pgflow.worker_functions`)
		updated, err := store.UpdateRegistration(t.Context(), "f", test.set)
		must(t, err)
		wantEqual(t, "row", query[string](t, pool, row), test.want)
		after := query[time.Time](t, pool, `SELECT updated_at FROM pgflow.worker_functions`)
		if set := test.set != (pgstate.Registration{}); updated != set || after.After(before) != set {
			t.Errorf("to %q: updated %v, updated_at from %s to %s", test.want, updated, before, after)
		}
	}
}

func TestRegistrationIsWrittenWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	store := pgstate.NewStore(pool)
	bad := everyField()
	bad.Debounce = new(time.Millisecond) // the column has a check
	if created, err := store.CreateRegistration(t.Context(), "f", bad); err == nil || created {
		t.Fatalf("create: %v, %v", created, err)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM pgflow.worker_functions`); n != 0 {
		t.Fatal("half of it was created")
	}
	register(t, store, "f")
	if updated, err := store.UpdateRegistration(t.Context(), "f", bad); err == nil || updated {
		t.Fatalf("update: %v, %v", updated, err)
	}
	wantEqual(t, "row", query[string](t, pool, row), defaults)
}

func TestRegistrationInsideATransactionOfTheCallers(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := pgstate.NewStore(tx).CreateRegistration(t.Context(), "f", everyField())
		return err
	}))
	if n := query[int](t, pool, `SELECT count(*) FROM pgflow.worker_functions`); n != 1 {
		t.Fatalf("%d rows", n)
	}
}

func TestStartModeWhereThereIsNone(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	pool := open(t, url)
	run(t, pool, oldPgflow)
	_, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{})
	must(t, err)
	store := pgstate.NewStore(pool)

	_, err = store.CreateRegistration(t.Context(), "f", everyField())
	if !errors.Is(err, pgstate.ErrNoStartMode) {
		t.Fatalf("create: %v", err)
	}
	_, err = store.UpdateRegistration(t.Context(), "old", everyField())
	if !errors.Is(err, pgstate.ErrNoStartMode) {
		t.Fatalf("update: %v", err)
	}
	asHTTP := everyField()
	asHTTP.StartMode = new("http") // as everything is read there
	created, err := store.CreateRegistration(t.Context(), "f", asHTTP)
	must(t, err)
	if !created {
		t.Fatal("not created with start mode http")
	}

	// It counts from the moment pgflow adds it.
	run(t, pool, `ALTER TABLE pgflow.worker_functions ADD COLUMN start_mode text NOT NULL DEFAULT 'http'`)
	updated, err := store.UpdateRegistration(t.Context(), "f", everyField())
	must(t, err)
	snapshot, err := store.StatesOf(t.Context(), []string{"f"})
	must(t, err)
	if !updated || len(snapshot.States) != 1 || snapshot.States[0].StartMode != "process" {
		t.Fatalf("updated %v, states %+v", updated, snapshot.States)
	}
}

func TestDisable(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	store := pgstate.NewStore(pool)
	register(t, store, "f")
	register(t, store, "g")
	for i, want := range []bool{true, false} {
		disabled, err := store.Disable(t.Context(), "f")
		must(t, err)
		if disabled != want {
			t.Fatalf("call %d: %v", i, disabled)
		}
	}
	wantEqual(t, "disabled",
		query[string](t, pool, `SELECT string_agg(function_name, ',') FROM pgflow.worker_functions WHERE NOT enabled`), "f")
}

// everyField sets each to something that no column defaults to.
func everyField() pgstate.Registration {
	return pgstate.Registration{
		Enabled:          new(false),
		StartMode:        new("process"),
		Debounce:         new(2500 * time.Millisecond),
		PendingTimeout:   new(30 * time.Minute),
		HeartbeatTimeout: new(45*time.Second + time.Microsecond),
		Handshake:        new("required"),
	}
}
