package contract_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
)

// locked opens a transaction that holds the registration's row lock.
func (f function) locked() pgx.Tx {
	f.t.Helper()
	tx := f.d.begin(f.t)
	_, err := tx.Exec(f.t.Context(), `select from pgflow.worker_functions where function_name = $1 for update`, f.name)
	must(f.t, err)
	return tx
}

// Time is read after the lock is held: what waited for it stamps times after the wait, not its transaction's start.
func TestTimeIsReadAfterTheLock(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	cases := []struct {
		name    string
		prepare func(f function) (id string)
		call    func(f function, id, worker string) error
		stamped func(f function, worker string) []time.Time
	}{
		{"reserve", func(function) string { return "" },
			func(f function, _, _ string) error { _, err := f.tryReserve(); return err },
			func(f function, _ string) []time.Time {
				return []time.Time{f.row().invoked, f.row().expires.Add(-time.Minute)}
			}},
		{"accept", function.reserved,
			func(f function, id, worker string) error { _, err := f.tryAccept(id, worker); return err },
			func(f function, worker string) []time.Time {
				return []time.Time{f.workerRow(worker).started, f.workerRow(worker).beat, f.row().outcomeAt}
			}},
		{"insert with an invocation", function.reserved,
			func(f function, id, worker string) error { return f.insert(worker, id) },
			func(f function, worker string) []time.Time {
				return []time.Time{f.workerRow(worker).started, f.workerRow(worker).beat, f.row().outcomeAt}
			}},
		{"insert without", function.reserved,
			func(f function, _, worker string) error { return f.insert(worker, "") },
			func(f function, worker string) []time.Time {
				return []time.Time{f.workerRow(worker).started, f.workerRow(worker).beat, f.row().outcomeAt}
			}},
		{"dismiss", function.reserved,
			func(f function, id, _ string) error { _, err := f.tryDismiss(id, "no"); return err },
			func(f function, _ string) []time.Time { return []time.Time{f.row().outcomeAt} }},
		{"receive as heartbeat", func(f function) string { return "" },
			func(f function, _, worker string) error {
				if err := f.insert(worker, ""); err != nil {
					return err
				}
				_, err := f.tryReceive(newID(), worker)
				return err
			},
			func(f function, worker string) []time.Time { return []time.Time{f.workerRow(worker).beat} }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			f := d.function(t, "")
			id, worker := c.prepare(f), newID()
			holder := f.locked()
			tx := d.begin(t)
			_, err := tx.Exec(t.Context(), `select now()`) // the transaction's time is read here
			must(t, err)
			done := make(chan error)
			go func() { done <- c.call(f.on(tx), id, worker) }()
			d.waiting(t, 1)
			waited := d.now(t)
			must(t, holder.Commit(t.Context()))
			must(t, <-done)
			must(t, tx.Commit(t.Context()))
			for _, at := range c.stamped(f, worker) {
				g.Expect(at).To(And(BeTemporally(">=", waited), BeTemporally("<=", d.now(t))))
			}
		})
	}
}

// An invocation that expires while a call waits for the lock is expired for that call.
func TestExpiryDuringTheWaitCounts(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	g := NewWithT(t)
	f := d.function(t, `pending_timeout = interval '1 s'`)
	id := f.reserved()
	holder := f.locked()
	answers, dismissed, inserted := make(chan answer, 2), make(chan bool, 1), make(chan error, 1)
	go func() { a, err := f.tryReceive(id, ""); report(t, err); answers <- a }()
	go func() { a, err := f.tryAccept(id, newID()); report(t, err); answers <- a }()
	go func() { ok, err := f.tryDismiss(id, "no"); report(t, err); dismissed <- ok }()
	go func() { inserted <- f.insert(newID(), id) }()
	d.waiting(t, 4)
	g.Eventually(func() bool { return d.now(t).After(f.row().expires) }).WithTimeout(5 * time.Second).Should(BeTrue())
	must(t, holder.Commit(t.Context()))
	for range 2 {
		g.Expect((<-answers).reason).To(Equal("expired"))
	}
	g.Expect(<-dismissed).To(BeFalse())
	refusedFor(t, <-inserted, "expired")
}

func report(t testing.TB, err error) {
	if err != nil {
		t.Error(describe(err))
	}
}

// The reading of workers that decides begins after the lock is held: whoever waited for an admission sees its worker.
func TestTheDecisiveReadingFollowsTheLock(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for name, admit := range map[string]func(f function, id, worker string) error{
		"accept":     func(f function, id, worker string) error { _, err := f.tryAccept(id, worker); return err },
		"insert":     func(f function, id, worker string) error { return f.insert(worker, id) },
		"unverified": func(f function, _, worker string) error { return f.insert(worker, "") },
		"by receive": func(f function, id, worker string) error { _, err := f.tryReceive(id, worker); return err },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := d.function(t, "")
			worker := newID()
			if name == "by receive" {
				must(t, f.insert(worker, ""))
				f.stale(worker)
			}
			id := f.reserved()
			f.due()
			tx := d.begin(t)
			must(t, admit(f.on(tx), id, worker))
			reserved, accepted, inserted := make(chan reservation, 1), make(chan answer, 1), make(chan error, 1)
			go func() { r, err := f.tryReserve(); report(t, err); reserved <- r }()
			go func() { a, err := f.tryAccept(id, newID()); report(t, err); accepted <- a }()
			go func() { inserted <- f.insert(newID(), id) }()
			d.waiting(t, 3)
			must(t, tx.Commit(t.Context()))
			g.Expect(<-reserved).To(Equal(reservation{decision: "ready", ready: worker}))
			if name == "unverified" {
				g.Expect((<-accepted).reason).To(Equal("superseded"))
				refusedFor(t, <-inserted, "superseded")
			} else {
				g.Expect(<-accepted).To(Equal(answer{verdict: "acknowledged", ready: worker}))
				refusedFor(t, <-inserted, "acknowledged")
			}
			g.Expect(f.workers()).To(Equal(1))
		})
	}
}

// A transaction that rolls back leaves nothing: the id is there for the next.
func TestAdmissionRolledBackConsumesNothing(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	f := d.function(t, "")
	id := f.reserved()
	f.unchanged(func() {
		tx := d.begin(t)
		NewWithT(t).Expect(f.on(tx).accept(id, newID()).verdict).To(Equal("accepted"))
		must(t, tx.Rollback(t.Context()))
	})
	NewWithT(t).Expect(f.accept(id, newID()).verdict).To(Equal("accepted"))
}

var operations = map[string]func(f function, id string) error{
	"reserve": func(f function, _ string) error { _, err := f.tryReserve(); return err },
	"receive": func(f function, id string) error { _, err := f.tryReceive(id, ""); return err },
	"accept":  func(f function, id string) error { _, err := f.tryAccept(id, newID()); return err },
	"dismiss": func(f function, id string) error { _, err := f.tryDismiss(id, "no"); return err },
	"clear":   func(f function, _ string) error { _, err := f.tryClear(); return err },
}

// The operations carry lock_timeout 5 s; 55P03 means ask again. It is theirs alone, not the session's.
func TestOperationsGiveUpALockAfterFiveSeconds(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for name, call := range operations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := d.function(t, "")
			id := f.reserved()
			f.unchanged(func() {
				holder := f.locked()
				c := d.connect(t)
				_, err := c.Exec(t.Context(), `set lock_timeout = '1 min'`)
				must(t, err)
				began := time.Now()
				err = call(f.on(c), id)
				took := time.Since(began)
				g.Expect(code(err)).To(Equal("55P03"))
				g.Expect(took).To(And(BeNumerically(">", 4900*time.Millisecond), BeNumerically("<", 10*time.Second)))
				g.Expect(textOf(t, c, `show lock_timeout`)).To(Equal("1min"))
				must(t, holder.Commit(t.Context()))
			})
			g.Expect(f.accept(id, newID()).verdict).To(Equal("accepted"))
		})
	}
}

func TestOutsideReadCommittedTheOperationsRaise(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for name, call := range operations {
			f := d.function(t, "")
			id := f.reserved()
			f.unchanged(func() {
				tx := d.begin(t, pgx.TxOptions{IsoLevel: level})
				NewWithT(t).Expect(code(call(f.on(tx), id))).To(Equal("25001"), "%s %s", level, name)
				must(t, tx.Rollback(t.Context()))
			})
		}
		f := d.function(t, "")
		id := f.reserved()
		f.unchanged(func() {
			tx := d.begin(t, pgx.TxOptions{IsoLevel: level})
			NewWithT(t).Expect(code(f.on(tx).insert(newID(), id))).To(Equal("25001"), "%s insert with an invocation", level)
		})
	}
}

// Other workers' rows are never locked: an open transaction on one, a heartbeat say, holds nobody up.
func TestOtherWorkersRowsAreNeverLocked(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for _, settings := range []string{`last_heartbeat_at = clock_timestamp()`, `last_heartbeat_at = clock_timestamp() - interval '1 day'`} {
		f := d.function(t, "")
		_, w := f.admitted()
		f.due()
		f.change(w, settings)
		holder := d.begin(t)
		_, err := holder.Exec(t.Context(), `update pgflow.workers set last_heartbeat_at = clock_timestamp() where worker_id = $1`, w)
		must(t, err)
		impatient := d.connect(t)
		_, err = impatient.Exec(t.Context(), `set statement_timeout = '3 s'`)
		must(t, err)
		for name, call := range operations {
			if err := call(f.on(impatient), f.on(impatient).reserve().id); err != nil {
				t.Error(name, describe(err))
			}
		}
		must(t, f.on(impatient).insert(newID(), ""))
		must(t, holder.Rollback(t.Context()))
	}
}
