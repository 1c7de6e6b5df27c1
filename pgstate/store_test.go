package pgstate_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// The rules of the handshake are tested in SQL, in package contract. Here: that
// the Store asks the right question and hands on the whole answer.
func TestStoreWalksThroughAHandshake(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	store := pgstate.NewStore(pool)
	ctx := t.Context()
	timeout := 90 * time.Second
	created, err := store.CreateRegistration(ctx, "f", pgstate.Registration{PendingTimeout: &timeout})
	must(t, err)
	if !created {
		t.Fatal("not created")
	}

	first, err := store.Reserve(ctx, "f")
	must(t, err)
	now := query[time.Time](t, pool, `SELECT clock_timestamp()`)
	if first.Decision != pgstate.DecisionReserved || first.InvocationID == uuid.Nil || !first.RetryAt.IsZero() ||
		first.ReadyWorkerID != uuid.Nil || !near(first.ExpiresAt, now.Add(timeout)) ||
		first.ExpiresIn > timeout || first.ExpiresIn < timeout-10*time.Second {
		t.Fatalf("first reserve: %+v", first)
	}
	second, err := store.Reserve(ctx, "f")
	must(t, err)
	if second.Decision != pgstate.DecisionPending || second.InvocationID != first.InvocationID ||
		!second.ExpiresAt.Equal(first.ExpiresAt) || second.ExpiresIn >= first.ExpiresIn {
		t.Fatalf("second reserve: %+v after %+v", second, first)
	}
	receipt, err := store.Receive(ctx, "f", first.InvocationID, uuid.Nil)
	must(t, err)
	want := pgstate.Receipt{Verdict: pgstate.VerdictStart, ExpiresAt: first.ExpiresAt}
	if receipt != want {
		t.Fatalf("receive: %+v, want %+v", receipt, want)
	}
	worker := uuid.New()
	receipt, err = store.Accept(ctx, "f", first.InvocationID, worker, "q")
	must(t, err)
	if receipt.Verdict != pgstate.VerdictAccepted || receipt.ReadyWorkerID != worker {
		t.Fatalf("accept: %+v", receipt)
	}
	receipt, err = store.Receive(ctx, "f", first.InvocationID, uuid.Nil)
	must(t, err)
	if want := (pgstate.Receipt{Verdict: pgstate.VerdictAcknowledged, ReadyWorkerID: worker}); receipt != want {
		t.Fatalf("receive again: %+v, want %+v", receipt, want)
	}
	ready, err := store.Reserve(ctx, "f")
	must(t, err)
	if want := (pgstate.Reservation{Decision: pgstate.DecisionReady, ReadyWorkerID: worker}); ready != want {
		t.Fatalf("reserve when ready: %+v, want %+v", ready, want)
	}
	if queue := query[string](t, pool, `SELECT queue_name FROM pgflow.workers WHERE worker_id = $1::uuid`, worker.String()); queue != "q" {
		t.Fatalf("queue %q", queue)
	}
}

func TestStoreDismissesAndClearsTheThrottle(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	store := pgstate.NewStore(pool)
	ctx := t.Context()
	register(t, store, "f")
	reservation, err := store.Reserve(ctx, "f")
	must(t, err)

	for i, want := range []bool{true, false} {
		dismissed, err := store.Dismiss(ctx, "f", reservation.InvocationID, "auth_rejected")
		must(t, err)
		if dismissed != want {
			t.Fatalf("dismiss %d: %v", i, dismissed)
		}
	}
	throttled, err := store.Reserve(ctx, "f")
	must(t, err)
	if throttled.Decision != pgstate.DecisionThrottled || throttled.InvocationID != uuid.Nil || throttled.RetryAt.IsZero() ||
		throttled.RetryAt.Sub(reservation.ExpiresAt.Add(-time.Minute)).Round(time.Second) != 5*time.Minute {
		t.Fatalf("reserve: %+v, dismissed one: %+v", throttled, reservation)
	}
	receipt, err := store.Receive(ctx, "f", reservation.InvocationID, uuid.Nil)
	must(t, err)
	if want := (pgstate.Receipt{Verdict: pgstate.VerdictRejected, Reason: "dismissed"}); receipt != want {
		t.Fatalf("receive: %+v, want %+v", receipt, want)
	}
	cleared, err := store.ClearThrottle(ctx, "f")
	must(t, err)
	if !cleared {
		t.Fatal("not cleared")
	}
	again, err := store.Reserve(ctx, "f")
	must(t, err)
	if again.Decision != pgstate.DecisionReserved || again.InvocationID == reservation.InvocationID {
		t.Fatalf("reserve: %+v", again)
	}
	cleared, err = store.ClearThrottle(ctx, "f")
	must(t, err)
	if cleared {
		t.Fatal("cleared while one is pending")
	}
}

func TestStoreOnWhatIsNotThere(t *testing.T) {
	t.Parallel()
	_, pool := migrated(t)
	store := pgstate.NewStore(pool)
	ctx := t.Context()
	reservation, err := store.Reserve(ctx, "nobody")
	must(t, err)
	if reservation != (pgstate.Reservation{Decision: pgstate.DecisionUnknown}) {
		t.Fatalf("reserve: %+v", reservation)
	}
	unknown := pgstate.Receipt{Verdict: pgstate.VerdictRejected, Reason: "unknown"}
	receipt, err := store.Receive(ctx, "nobody", uuid.Nil, uuid.Nil)
	must(t, err)
	if receipt != unknown {
		t.Fatalf("receive: %+v", receipt)
	}
	receipt, err = store.Accept(ctx, "nobody", uuid.New(), uuid.New(), "q")
	must(t, err)
	if receipt != unknown {
		t.Fatalf("accept: %+v", receipt)
	}
	for name, call := range map[string]func() (bool, error){
		"dismiss":        func() (bool, error) { return store.Dismiss(ctx, "nobody", uuid.New(), "x") },
		"clear throttle": func() (bool, error) { return store.ClearThrottle(ctx, "nobody") },
		"disable":        func() (bool, error) { return store.Disable(ctx, "nobody") },
		"update": func() (bool, error) {
			return store.UpdateRegistration(ctx, "nobody", pgstate.Registration{Enabled: new(bool)})
		},
	} {
		if done, err := call(); err != nil || done {
			t.Errorf("%s: %v, %v", name, done, err)
		}
	}
	snapshot, err := store.StatesOf(ctx, []string{"nobody"})
	must(t, err)
	if len(snapshot.States) != 0 || snapshot.Now.IsZero() {
		t.Fatalf("states: %+v", snapshot)
	}
}

// Through a transaction pooler nothing of a session may be relied on.
func TestStoreLeavesNothingInTheSession(t *testing.T) {
	t.Parallel()
	url, _ := migrated(t)
	connection, err := pgstate.ParseURL(url)
	must(t, err)
	config, err := connection.PoolConfig()
	must(t, err)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	defer pool.Close()

	store := pgstate.NewStore(pool)
	register(t, store, "f")
	for range 3 {
		_, err = store.Reserve(t.Context(), "f")
		must(t, err)
		_, err = store.States(t.Context())
		must(t, err)
		_, err = store.StatesOf(t.Context(), []string{"f", "g"})
		must(t, err)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM pg_prepared_statements`); n != 0 {
		t.Fatalf("%d statements are prepared", n)
	}
}

func register(t *testing.T, store *pgstate.Store, function string) {
	t.Helper()
	if _, err := store.CreateRegistration(t.Context(), function, pgstate.Registration{}); err != nil {
		t.Fatal(err)
	}
}

// near tells whether two readings of one clock are of the same moment, give or
// take a slow test.
func near(a, b time.Time) bool { return a.Sub(b).Abs() < 10*time.Second }
