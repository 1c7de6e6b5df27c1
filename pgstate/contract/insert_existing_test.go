package contract_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

const (
	beatByUpsert = `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id)
		values ($1, $2::text::uuid, $3, nullif($4::text, '')::uuid)
		on conflict (worker_id) do update set last_heartbeat_at = excluded.last_heartbeat_at`
	insertOrNothing = `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id)
		values ($1, $2::text::uuid, $3, nullif($4::text, '')::uuid) on conflict do nothing`
)

// upsert runs one of the above and returns the rows it touched.
func (f function) upsert(sql, worker, invocation string) int64 {
	f.t.Helper()
	tag, err := f.q.Exec(f.t.Context(), sql, f.queue(), worker, f.name, invocation)
	must(f.t, err)
	return tag.RowsAffected()
}

// A row whose worker id exists already is left to the primary key: workers in other languages beat with an upsert.
func TestHeartbeatByUpsertConsumesNothing(t *testing.T) {
	t.Parallel()
	d := shared(t)
	settings := map[string]string{
		"permissive": ``, "required": `handshake = 'required'`, "disabled": `enabled = false`,
		"required and disabled": `enabled = false, handshake = 'required'`, "process": `start_mode = 'process'`,
	}
	for name, set := range settings {
		for _, carries := range []string{"no invocation", "its own invocation", "the current invocation", "an unknown invocation"} {
			t.Run(name+", carrying "+carries, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				f := d.function(t, "")
				own, w := f.admitted()
				f.stale(w)
				f.due()
				current := f.reserved()
				if set != "" {
					f.set(set)
				}
				id := map[string]string{"no invocation": "", "its own invocation": own, "the current invocation": current, "an unknown invocation": newID()}[carries]
				before, called := f.row(), d.now(t)

				g.Expect(f.upsert(insertOrNothing, w, id)).To(BeZero())
				g.Expect(f.workerRow(w).beat).To(BeTemporally("<", called))
				for range 2 {
					g.Expect(f.upsert(beatByUpsert, w, id)).To(BeEquivalentTo(1))
					g.Expect(f.row()).To(Equal(before), "the registration is untouched")
				}
				row := f.workerRow(w)
				g.Expect(row.invocation).To(Equal(own))
				g.Expect(row.beat).To(BeTemporally(">=", called.Add(-1)))
				g.Expect(code(f.insert(w, id))).To(Equal("23505"))
				g.Expect(f.row()).To(Equal(before))
				g.Expect(f.workers()).To(Equal(1))
			})
		}
	}
}

// Only rows really inserted consume: the id of a worker that another function has just taken, uncommitted, conflicts late.
func TestRowThatConflictsLateConsumesNothing(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for _, sql := range []string{insertOrNothing, beatByUpsert} {
		g := NewWithT(t)
		f, other := d.function(t, ""), d.unregistered(t, "other")
		id, w := f.reserved(), newID()
		before := f.row()
		tx := d.begin(t)
		must(t, other.on(tx).insert(w, ""))
		done := make(chan int64)
		go func() {
			tag, err := d.pool.Exec(t.Context(), sql, f.queue(), w, f.name, id)
			if err != nil {
				t.Error(describe(err))
			}
			done <- tag.RowsAffected()
		}()
		d.waiting(t, 1)
		must(t, tx.Commit(t.Context()))
		<-done
		g.Expect(f.row()).To(Equal(before), sql)
		g.Expect(f.workers()).To(BeZero())
		g.Expect(f.accept(id, newID()).verdict).To(Equal("accepted"), "it is still there to be used")
	}
}

// A row inserted as already stopped or deprecated closes nothing, and its times are history.
func TestRowInsertedAsEndedClosesNothing(t *testing.T) {
	t.Parallel()
	d := shared(t)
	for _, column := range []string{"stopped_at", "deprecated_at"} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := d.function(t, `failed_starts = 2`)
			id := f.reserved()
			before := f.row()
			w := newID()
			sql := `insert into pgflow.workers (queue_name, worker_id, function_name, invocation_id, started_at, last_heartbeat_at, ` + column + `)
				values ($1, $2::text::uuid, $3, nullif($4::text, '')::uuid, '2001-01-01', '2001-01-01', '2001-01-01 00:01')`
			_, err := f.q.Exec(t.Context(), sql, f.queue(), w, f.name, "")
			must(t, err)
			g.Expect(f.row()).To(Equal(before))
			g.Expect(f.workerRow(w).started.Year()).To(Equal(2001))
			g.Expect(f.state().phase).To(Equal("pending"))

			// With the current id: refused or kept as history, but nothing is closed and nobody is made ready by it.
			if _, err := f.q.Exec(t.Context(), sql, f.queue(), newID(), f.name, id); err != nil {
				g.Expect(code(err)).To(Equal("PF001"))
			}
			g.Expect(f.row()).To(Equal(before))
			g.Expect(f.state().phase).To(Equal("pending"))
		})
	}
}

// The heartbeat of a worker whose row is gone is an insert like any other.
func TestHeartbeatByUpsertOfARowThatIsGone(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, `handshake = 'required'`)
	id, w := f.admitted()
	f.due()
	_, err := f.q.Exec(t.Context(), `delete from pgflow.workers where worker_id = $1::text::uuid`, w)
	must(t, err)
	current := f.reserved()
	f.unchanged(func() {
		_, err := f.q.Exec(t.Context(), beatByUpsert, f.queue(), w, f.name, "")
		refusedFor(t, err, "tokenless")
		_, err = f.q.Exec(t.Context(), beatByUpsert, f.queue(), w, f.name, id)
		g.Expect(code(err)).To(Equal("PF001"), "its invocation is used, the row being there or not")
		g.Expect(f.accept(id, w).verdict).To(Equal("rejected"))
		g.Expect(f.receive(id, w).verdict).To(Equal("rejected"))
	})
	g.Expect(f.upsert(beatByUpsert, w, current)).To(BeEquivalentTo(1))
	g.Expect(f.state().ready).To(Equal(w))
}
