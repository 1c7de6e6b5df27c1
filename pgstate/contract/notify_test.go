package contract_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
)

// listener hears what a statement notifies: a marker sent after it proves that nothing more comes.
type listener struct {
	t testing.TB
	d *database
	c *pgx.Conn
}

func (d *database) listen(t testing.TB) listener {
	t.Helper()
	c := d.connect(t)
	_, err := c.Exec(t.Context(), `listen pgflow_worker_functions; listen contract_marker`)
	must(t, err)
	return listener{t, d, c}
}

// heard is the set of payloads that were notified while do ran, sorted.
func (l listener) heard(do func()) []string {
	l.t.Helper()
	l.marker()
	do()
	return l.marker()
}

func (l listener) marker() []string {
	l.t.Helper()
	marker := newID()
	l.d.exec(l.t, `select pg_notify('contract_marker', $1)`, marker)
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
	defer cancel()
	heard := []string{}
	for {
		n, err := l.c.WaitForNotification(ctx)
		must(l.t, err)
		if n.Channel != "contract_marker" {
			heard = append(heard, n.Payload)
		} else if n.Payload == marker {
			slices.Sort(heard)
			return slices.Compact(heard)
		}
	}
}

func TestRegistrationChangesNotify(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	g := NewWithT(t)
	l := d.listen(t)
	f := d.function(t, "")
	name := []string{f.name}
	for _, settings := range []string{
		`enabled = false`, `enabled = true`, `start_mode = 'process'`, `start_mode = 'http'`, `debounce = interval '9 s'`,
		`pending_timeout = interval '9 s'`, `heartbeat_timeout = interval '9 s'`, `handshake = 'required'`,
		`failed_starts = 9`, `last_invoked_at = clock_timestamp()`, `last_invoked_at = null`,
		`invocation_id = gen_random_uuid(), invocation_expires_at = clock_timestamp() + interval '1 min'`,
		`invocation_expires_at = clock_timestamp()`, `invocation_id = null, invocation_expires_at = null`,
	} {
		g.Expect(l.heard(func() { f.set(settings) })).To(Equal(name), settings)
		if !strings.Contains(settings, "clock_timestamp") && !strings.Contains(settings, "random") {
			g.Expect(l.heard(func() { f.set(settings) })).To(BeEmpty(), "nothing changes: %s", settings)
		}
	}
	g.Expect(l.heard(func() { f.set(`updated_at = clock_timestamp()`) })).To(BeEmpty(), "matters for no decision")
	g.Expect(l.heard(func() { f.set(`created_at = clock_timestamp()`) })).To(BeEmpty(), "matters for no decision")

	g.Expect(l.heard(func() { d.named(t, "born", "") })).To(Equal([]string{"born"}))
	g.Expect(l.heard(func() {
		d.exec(t, `update pgflow.worker_functions set function_name = 'renamed' where function_name = 'born'`)
	})).To(Equal([]string{"born", "renamed"}))
	g.Expect(l.heard(func() { d.exec(t, `delete from pgflow.worker_functions where function_name = 'renamed'`) })).To(Equal([]string{"renamed"}))
	g.Expect(l.heard(func() { d.exec(t, `select pgflow.track_worker_function('tracked')`) })).To(Equal([]string{"tracked"}))
	g.Expect(l.heard(func() {
		d.exec(t, `update pgflow.worker_functions set failed_starts = failed_starts + 1`)
	})).To(ConsistOf(f.name, "tracked"), "every row of a statement")
}

func TestOperationsNotifyWhatTheyChange(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	g := NewWithT(t)
	l := d.listen(t)
	f := d.function(t, "")
	name := []string{f.name}
	var id string
	g.Expect(l.heard(func() { id = f.reserved() })).To(Equal(name))
	g.Expect(l.heard(func() { f.reserve() })).To(BeEmpty(), "pending")
	g.Expect(l.heard(func() { f.receive(id, "") })).To(BeEmpty(), "receiving a request changes nothing")
	g.Expect(l.heard(func() { f.accept(newID(), newID()); f.receive(newID(), ""); f.dismiss(newID(), "no"); f.clear() })).To(BeEmpty())
	w := newID()
	g.Expect(l.heard(func() { f.accept(id, w) })).To(Equal(name))
	g.Expect(l.heard(func() { f.accept(id, w); f.accept(id, newID()); f.reserve() })).To(BeEmpty(), "again")
	f.change(w, `last_heartbeat_at = clock_timestamp() - interval '20 s'`)
	g.Expect(l.heard(func() { f.receive(id, w) })).To(BeEmpty(), "never on a heartbeat")
	f.stop(w)
	f.due()
	id = f.reserved()
	g.Expect(l.heard(func() { f.dismiss(id, "http_400") })).To(Equal(name))
	g.Expect(l.heard(func() { f.dismiss(id, "http_400") })).To(BeEmpty(), "again")
	g.Expect(l.heard(func() { f.reserve() })).To(BeEmpty(), "throttled")
	g.Expect(l.heard(func() { f.clear() })).To(Equal(name))
	id = f.reserved()
	f.expire()
	g.Expect(l.heard(func() { f.receive(id, "") })).To(BeEmpty(), "expired")
	f.set(`last_invoked_at = clock_timestamp()`)
	g.Expect(l.heard(func() { f.reserve() })).To(Equal(name), "closes the expired one")
}

func TestWorkerChangesNotify(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	l := d.listen(t)
	functions := map[string]function{
		"http": d.function(t, ""), "required": d.function(t, ""), "process": d.function(t, `start_mode = 'process'`),
		"disabled": d.function(t, `enabled = false`), "unregistered": d.unregistered(t, "nobody"),
	}
	for kind, f := range functions {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			name := []string{f.name}
			w, id := newID(), ""
			if kind == "required" {
				f.set(`handshake = 'required'`)
				id = f.reserved()
			}
			g.Expect(l.heard(func() { must(t, f.insert(w, id)) })).To(Equal(name), "insert")
			g.Expect(l.heard(func() { f.beat(w) })).To(BeEmpty(), "heartbeat")
			g.Expect(l.heard(func() { f.upsert(beatByUpsert, w, "") })).To(BeEmpty(), "heartbeat by upsert")
			g.Expect(l.heard(func() { f.upsert(insertOrNothing, w, "") })).To(BeEmpty(), "on conflict do nothing")
			g.Expect(l.heard(func() {
				_, err := d.pool.Exec(t.Context(), `update pgflow.workers set last_heartbeat_at = clock_timestamp() where worker_id = $1 returning deprecated_at is not null`, w)
				must(t, err)
			})).To(BeEmpty(), "pgflow's heartbeat")
			g.Expect(l.heard(func() { f.deprecate(w) })).To(Equal(name), "deprecation")
			g.Expect(l.heard(func() { f.beat(w) })).To(BeEmpty(), "heartbeat of a deprecated worker")
			g.Expect(l.heard(func() { d.exec(t, `select pgflow.mark_worker_stopped($1)`, w) })).To(Equal(name), "stop")
			g.Expect(l.heard(func() { d.exec(t, `delete from pgflow.workers where worker_id = $1`, w) })).To(Equal(name), "delete")
		})
	}
}

// A name of more than 7,999 bytes is notified as the empty payload: look at all. Bytes, not characters.
func TestOverLongNamesNotifyEmpty(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	g := NewWithT(t)
	l := d.listen(t)
	for name, want := range map[string]string{
		strings.Repeat("x", 7999):       strings.Repeat("x", 7999),
		strings.Repeat("x", 8000):       "",
		strings.Repeat("ü", 3999) + "x": strings.Repeat("ü", 3999) + "x",
		strings.Repeat("ü", 4000):       "",
	} {
		var f function
		g.Expect(l.heard(func() { f = d.named(t, name, "") })).To(Equal([]string{want}))
		var w string
		g.Expect(l.heard(func() { f.reserved() })).To(Equal([]string{want}))
		g.Expect(l.heard(func() { w = f.worker() })).To(Equal([]string{want}))
		g.Expect(l.heard(func() { f.stop(w) })).To(Equal([]string{want}))
		g.Expect(l.heard(func() {
			d.exec(t, `update pgflow.worker_functions set function_name = 'short' where function_name = $1`, name)
		})).To(ConsistOf(want, "short"))
		d.exec(t, `delete from pgflow.worker_functions`)
	}
}

// What is rolled back or refused notifies nobody.
func TestRefusedInsertNotifiesNobody(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	l := d.listen(t)
	f := d.function(t, `handshake = 'required'`)
	NewWithT(t).Expect(l.heard(func() {
		refusedFor(t, f.insert(newID(), ""), "tokenless")
		refusedFor(t, f.insert(newID(), newID()), "unknown")
	})).To(BeEmpty())
}
