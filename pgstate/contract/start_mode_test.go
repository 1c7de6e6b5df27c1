package contract_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// Where start_mode is absent it reads as http everywhere.
func TestWithoutStartModeEverythingIsHTTP(t *testing.T) {
	t.Parallel()
	d := pgflow(t, false)
	_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{})
	must(t, err)
	g := NewWithT(t)
	f := d.function(t, "")
	id, w := f.admitted()
	g.Expect(f.receive(id, "").ready).To(Equal(w))
	g.Expect([]string{f.state().startMode, f.state().phase}).To(Equal([]string{"http", "ready"}))
	f.stop(w)
	f.due()
	g.Expect(f.dismiss(f.reserved(), "no")).To(BeTrue())
	g.Expect(f.clear()).To(BeTrue())
	f.reserved()
	f.worker()
	g.Expect(f.row().outcome).To(Equal("unverified"))
	f.set(`handshake = 'required'`)
	refusedFor(t, f.insert(newID(), ""), "tokenless")
	g.Expect(d.text(t, `select count(*)::text from information_schema.columns where table_schema = 'pgflow' and table_name = 'worker_functions' and column_name = 'start_mode'`)).
		To(Equal("0"), "never add what a later pgflow adds")
}

// It counts from the moment pgflow adds it: with no second installation, on connections that were open before.
func TestStartModeCountsFromTheMomentItIsAdded(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]string{
		"as the contract has it": `alter table pgflow.worker_functions add column start_mode text default 'http' check (start_mode in ('http', 'process'))`,
		"as pgflow has it":       addStartModeSQL,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := pgflow(t, false)
			_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{})
			must(t, err)
			old := d.connect(t)
			warm := d.function(t, "").on(old)
			for range 8 { // long enough for every plan to be cached
				id, w := warm.admitted()
				warm.receive(id, w)
				warm.beat(w)
				warm.stop(w)
				warm.due()
				warm.dismiss(warm.reserved(), "no")
				warm.clear()
				warm.stop(warm.worker())
				warm.state()
			}

			d.exec(t, how)
			fresh := d.connect(t)
			l := d.listen(t)
			for _, c := range []querier{old, fresh} {
				reserve, receive, accept, direct := d.function(t, "").on(c), d.function(t, "").on(c), d.function(t, "").on(c), d.function(t, "").on(c)
				for _, f := range []function{reserve, receive, accept, direct} {
					g.Expect(f.state().startMode).To(Equal("http"))
					f.set(`handshake = 'required'`)
					id := f.reserved()
					g.Expect(l.heard(func() { f.set(`start_mode = 'process'`) })).To(Equal([]string{f.name}))
					g.Expect([]string{f.state().startMode, f.state().phase}).To(Equal([]string{"process", "process"}))
					switch f.name {
					case reserve.name:
						g.Expect(f.reserve()).To(Equal(reservation{decision: "process"}))
					case receive.name:
						g.Expect(f.receive(id, "").reason).To(Equal("process"))
					case accept.name:
						g.Expect(f.accept(id, newID()).reason).To(Equal("process"))
					case direct.name:
						refusedFor(t, f.insert(newID(), id), "process")
						must(t, f.insert(newID(), "")) // left alone though required
						g.Expect(f.row().id).To(Equal(id))
						continue
					}
					g.Expect([]string{f.row().outcome, f.row().reason}).To(Equal([]string{"dismissed", "process"}))
				}
				back := reserve
				back.set(`start_mode = 'http', last_invoked_at = null`)
				g.Expect(back.accept(back.reserved(), newID()).verdict).To(Equal("accepted"))
			}
			g.Expect(warm.state().startMode).To(Equal("http"))
			_, w := warm.admitted()
			g.Expect(warm.state().ready).To(Equal(w))
		})
	}
}

// Only http is started and takes part: a mode that a later pgflow adds is somebody else's to start.
func TestAModeOfALaterPgflowIsNotStarted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	d := pgflow(t, false)
	_, err := pgstate.Migrate(t.Context(), d.url, pgstate.MigrateOptions{})
	must(t, err)
	d.exec(t, `alter table pgflow.worker_functions add column start_mode text default 'http'`)
	f := d.function(t, "")
	id := f.reserved()
	f.set(`start_mode = 'schedule', handshake = 'required'`)
	g.Expect([]string{f.state().startMode, f.state().phase}).To(Equal([]string{"schedule", "process"}))
	must(t, f.insert(newID(), "")) // left alone
	g.Expect(f.row().id).To(Equal(id))
	g.Expect(f.reserve()).To(Equal(reservation{decision: "process"}))
}

// What closes an invocation of a function that is not started says nothing of a worker.
func TestAnInvocationDismissedByModeLeavesTheLastWorker(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := shared(t).function(t, "")
	_, w := f.admitted()
	f.stop(w)
	f.due()
	id := f.reserved()
	f.set(`enabled = false`)
	other := newID()
	f.set(`start_mode = 'process'`)
	must(t, f.insert(other, "")) // healthy, and not admitted by anybody
	f.set(`start_mode = 'http'`)
	g.Expect(f.receive(id, "").reason).To(Equal("disabled"))
	g.Expect(f.row().lastWorker).To(Equal(w))
}
