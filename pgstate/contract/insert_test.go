package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
)

// Every way in which a worker row that is not there yet can be inserted. Each inserts one row for the function.
var ways = map[string]func(f function, worker, invocation string) error{
	"plain": func(f function, worker, invocation string) error { return f.insert(worker, invocation) },
	"returning": func(f function, worker, invocation string) error {
		rows, err := f.q.Query(f.t.Context(), `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id)
			values ($1, $2, $3, nullif($4::text, '')::uuid) returning *`, f.queue(), worker, f.name, invocation)
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	},
	"explicit times of long ago": func(f function, worker, invocation string) error {
		_, err := f.q.Exec(f.t.Context(), `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id, started_at, last_heartbeat_at)
			values ($1, $2, $3, nullif($4::text, '')::uuid, '2001-01-01', '2001-01-01')`, f.queue(), worker, f.name, invocation)
		return err
	},
	"explicit times of the future": func(f function, worker, invocation string) error {
		_, err := f.q.Exec(f.t.Context(), `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id, started_at, last_heartbeat_at)
			values ($1, $2, $3, nullif($4::text, '')::uuid, '2901-01-01', '2901-01-01')`, f.queue(), worker, f.name, invocation)
		return err
	},
	"on conflict do update": func(f function, worker, invocation string) error {
		_, err := f.q.Exec(f.t.Context(), `insert into pgflow.workers as w (queue_name, worker_id, function_name, invocation_id)
			values ($1, $2, $3, nullif($4::text, '')::uuid)
			on conflict (worker_id) do update set last_heartbeat_at = clock_timestamp()`, f.queue(), worker, f.name, invocation)
		return err
	},
	"on conflict do nothing": func(f function, worker, invocation string) error {
		_, err := f.q.Exec(f.t.Context(), `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id)
			values ($1, $2, $3, nullif($4::text, '')::uuid) on conflict do nothing`, f.queue(), worker, f.name, invocation)
		return err
	},
	"multi-row": func(f function, worker, invocation string) error {
		_, err := f.q.Exec(f.t.Context(), `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id) values
			($1, gen_random_uuid(), $3 || ' unregistered', null), ($1, $2::text::uuid, $3, nullif($4::text, '')::uuid),
			($1, gen_random_uuid(), $3 || ' unregistered', null)`, f.queue(), worker, f.name, invocation)
		return err
	},
	"insert select": func(f function, worker, invocation string) error {
		_, err := f.q.Exec(f.t.Context(), `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id)
			select $1::text, $2::text::uuid, f.function_name, nullif($4::text, '')::uuid from pgflow.worker_functions f where f.function_name = $3`,
			f.queue(), worker, f.name, invocation)
		return err
	},
	"in a with clause": func(f function, worker, invocation string) error {
		_, err := f.q.Exec(f.t.Context(), `with w as (insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id)
			values ($1, $2, $3, nullif($4::text, '')::uuid) returning worker_id) select from w`, f.queue(), worker, f.name, invocation)
		return err
	},
	"copy": func(f function, worker, invocation string) error {
		var id any
		if invocation != "" {
			id = uuid.MustParse(invocation)
		}
		_, err := f.d.pool.CopyFrom(f.t.Context(), pgx.Identifier{"pgflow", "workers"},
			[]string{"queue_name", "worker_id", "function_name", "invocation_id"},
			pgx.CopyFromRows([][]any{{f.queue(), uuid.MustParse(worker), f.name, id}}))
		return err
	},
	"in a transaction begun before": func(f function, worker, invocation string) error {
		return pgx.BeginFunc(f.t.Context(), f.d.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(f.t.Context(), `select`); err != nil {
				return err
			}
			return f.on(tx).insert(worker, invocation)
		})
	},
}

// everyWay runs a test for each way of inserting, each with a function of its own.
func everyWay(t *testing.T, d *database, test func(f function, insert func(worker, invocation string) error)) {
	t.Helper()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := d.function(t, "")
			test(f, func(worker, invocation string) error { return way(f, worker, invocation) })
		})
	}
}

// admittedNow expects that the worker was admitted with the database's reading of the clock, whatever the row said.
func (f function) admittedNow(worker, invocation string, called time.Time) {
	f.t.Helper()
	g := NewWithT(f.t)
	w := f.workerRow(worker)
	g.Expect(w).To(Equal(workerRow{queue: f.queue(), function: f.name, invocation: invocation, started: w.beat, beat: w.beat}))
	g.Expect(w.beat).To(And(BeTemporally(">=", called), BeTemporally("<=", f.d.now(f.t))))
	g.Expect(f.row().lastWorker).To(Equal(worker))
	s := f.state()
	g.Expect([]any{s.phase, s.ready, s.verified}).To(Equal([]any{"ready", worker, invocation != ""}))
}

func TestDirectInsertWithAnInvocationIsAcceptance(t *testing.T) {
	t.Parallel()
	d := shared(t)
	for _, handshake := range []string{"permissive", "required"} {
		t.Run(handshake, func(t *testing.T) {
			everyWay(t, d, func(f function, insert func(worker, invocation string) error) {
				g := NewWithT(f.t)
				f.set(`failed_starts = 2, handshake = '` + handshake + `'`)
				id, worker := f.reserved(), newID()
				before, called := f.row(), d.now(f.t)
				must(f.t, insert(worker, id))
				f.admittedNow(worker, id, called)
				after := f.row()
				g.Expect(after).To(Equal(row{lastID: id, outcome: "accepted", lastWorker: worker, outcomeAt: after.outcomeAt, invoked: before.invoked}))
				g.Expect(f.state().takesPart).To(BeTrue())
				f.unchanged(func() {
					g.Expect(f.accept(id, worker)).To(Equal(answer{verdict: "accepted", ready: worker}), "a lost answer is asked for")
					g.Expect(f.accept(id, newID())).To(Equal(answer{verdict: "acknowledged", ready: worker}))
					refusedFor(f.t, f.insert(newID(), id), "acknowledged")
					g.Expect(code(f.insert(worker, id))).To(Equal("23505"), "left to the primary key")
				})
			})
		})
	}
}

func TestDirectInsertWithAnInvocationIsRefusedAsAccept(t *testing.T) {
	t.Parallel()
	d := shared(t)
	for _, c := range verdictCases {
		reason := map[string]string{
			"acknowledged": "acknowledged", "rejected unknown": "unknown", "rejected taken": "taken", "rejected process": "process",
			"rejected disabled": "disabled", "rejected dismissed": "dismissed", "rejected expired": "expired", "rejected superseded": "superseded",
		}[c.accept]
		if reason == "" || c.name == "null id" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			everyWay(t, d, func(f function, insert func(worker, invocation string) error) {
				id, _ := c.prepare(f)
				f.unchanged(func() {
					for range 2 {
						refusedFor(f.t, insert(newID(), id), reason)
					}
				})
			})
		})
	}
	t.Run("a function without a registration", func(t *testing.T) {
		f := d.unregistered(t, "nobody")
		for name, way := range ways {
			if name != "insert select" { // which selects nothing
				refusedFor(t, way(f, newID(), newID()), "unknown")
			}
		}
		NewWithT(t).Expect(f.workers()).To(BeZero())
	})
}

func TestDirectInsertWithoutInvocation(t *testing.T) {
	t.Parallel()
	d := shared(t)
	t.Run("permissive admits", func(t *testing.T) {
		everyWay(t, d, func(f function, insert func(worker, invocation string) error) {
			g := NewWithT(f.t)
			f.set(`failed_starts = 2`)
			worker, called := newID(), d.now(f.t)
			must(f.t, insert(worker, ""))
			f.admittedNow(worker, "", called)
			g.Expect(f.row()).To(Equal(row{lastWorker: worker}), "and nothing else")
			g.Expect(f.state().takesPart).To(BeFalse())
		})
	})
	t.Run("permissive admits to a disabled function", func(t *testing.T) {
		everyWay(t, d, func(f function, insert func(worker, invocation string) error) {
			f.set(`enabled = false`)
			worker := newID()
			must(f.t, insert(worker, ""))
			NewWithT(f.t).Expect(f.row().lastWorker).To(Equal(worker))
		})
	})
	for name, expired := range map[string]bool{"pending": false, "expired": true} {
		t.Run("permissive closes the current invocation, "+name, func(t *testing.T) {
			everyWay(t, d, func(f function, insert func(worker, invocation string) error) {
				id := f.reserved()
				if expired {
					f.expire()
				}
				before, worker, called := f.row(), newID(), d.now(f.t)
				must(f.t, insert(worker, ""))
				f.admittedNow(worker, "", called)
				after := f.row()
				NewWithT(f.t).Expect(after).To(Equal(row{lastID: id, outcome: "unverified", lastWorker: worker, outcomeAt: after.outcomeAt, invoked: before.invoked}))
				refusedFor(f.t, f.insert(newID(), id), "superseded")
			})
		})
	}
	for _, settings := range []string{`handshake = 'required'`, `handshake = 'required', enabled = false`} {
		t.Run("refused with "+settings, func(t *testing.T) {
			everyWay(t, d, func(f function, insert func(worker, invocation string) error) {
				f.reserved()
				f.set(settings)
				f.unchanged(func() {
					for range 2 {
						refusedFor(f.t, insert(newID(), ""), "tokenless")
					}
				})
			})
		})
	}
	t.Run("a process-managed function is left alone", func(t *testing.T) {
		everyWay(t, d, func(f function, insert func(worker, invocation string) error) {
			f.reserved()
			f.set(`start_mode = 'process', handshake = 'required', failed_starts = 2`)
			before := f.row()
			must(f.t, insert(newID(), ""))
			NewWithT(f.t).Expect(f.row()).To(Equal(before))
			NewWithT(f.t).Expect(f.workers()).To(Equal(1))
		})
	})
	t.Run("its times too", func(t *testing.T) {
		for _, f := range []function{d.function(t, `start_mode = 'process'`), d.unregistered(t, "nobody's")} {
			w := newID()
			must(t, ways["explicit times of long ago"](f, w, ""))
			row := f.workerRow(w)
			NewWithT(t).Expect([]int{row.started.Year(), row.beat.Year()}).To(Equal([]int{2001, 2001}), f.name)
		}
	})
	t.Run("an unregistered function is left alone", func(t *testing.T) {
		f := d.unregistered(t, "never registered")
		for name, way := range ways {
			if name != "insert select" {
				must(t, way(f, newID(), ""))
			}
		}
		NewWithT(t).Expect(f.workers()).To(Equal(len(ways) - 1))
		NewWithT(t).Expect(d.text(t, `select count(*)::text from pgflow.worker_functions where function_name = $1`, f.name)).To(Equal("0"))
	})
}

// COPY and the like carry several rows: all are judged, and if one is refused none is inserted and nothing consumed.
func TestOneRefusedRowRefusesTheStatement(t *testing.T) {
	t.Parallel()
	d := shared(t)
	f, g := d.function(t, ""), d.function(t, "")
	forF, forG := f.reserved(), g.reserved()
	insert := func(ctx context.Context, first, second string, onConflict string) error {
		_, err := d.pool.Exec(ctx, `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id) values
			('q', gen_random_uuid(), $1, $3::text::uuid), ('q', gen_random_uuid(), $2, $4::text::uuid) `+onConflict, f.name, g.name, first, second)
		return err
	}
	f.unchanged(func() {
		g.unchanged(func() { refusedFor(t, insert(t.Context(), forF, newID(), ""), "unknown") })
	})
	must(t, insert(t.Context(), forF, forG, ""))
	NewWithT(t).Expect([]string{f.state().phase, g.state().phase}).To(Equal([]string{"ready", "ready"}))

	// One id twice in one statement admits one worker at most, and then is used.
	for _, onConflict := range []string{"", "on conflict do nothing"} {
		h := d.function(t, "")
		id := h.reserved()
		_, err := d.pool.Exec(t.Context(), `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id)
			select 'q', gen_random_uuid(), $1, $2::text::uuid from generate_series(1, 3) `+onConflict, h.name, id)
		if err != nil {
			NewWithT(t).Expect(code(err)).To(BeElementOf("PF001", "23505"))
			NewWithT(t).Expect([]any{h.workers(), h.row().id}).To(Equal([]any{0, id}), onConflict)
			continue
		}
		NewWithT(t).Expect([]any{h.workers(), h.row().outcome, h.row().lastID}).To(Equal([]any{1, "accepted", id}), onConflict)
	}
}
