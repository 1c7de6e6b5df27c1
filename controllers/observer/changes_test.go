package observer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func TestChangesWakeTheirUsers(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.register("f")
	w.register("other")
	d := w.acquire("f")
	w.acquire("other")
	w.listens(d)
	others := w.wakes.of(user("other"))

	var worker uuid.UUID
	w.expectWake("f", func() { worker = w.start("f") })
	w.Expect(d.Lookup("f").State.ReadyWorker.ID).To(Equal(worker))

	w.expectWake("f", func() { w.exec(`SELECT pgflow.mark_worker_stopped($1)`, worker) })
	w.Expect(d.Lookup("f").State.Phase).To(Equal(pgstate.PhaseRetryable))

	w.expectWake("f", func() { worker = w.start("f") })
	w.expectWake("f", func() {
		w.exec(`UPDATE pgflow.workers SET deprecated_at = clock_timestamp() WHERE worker_id = $1`, worker)
	})

	w.expectWake("f", func() { w.exec(`UPDATE pgflow.worker_functions SET enabled = false WHERE function_name = 'f'`) })
	w.Expect(d.Lookup("f").State.Phase).To(Equal(pgstate.PhaseDisabled))

	w.expectWake("f", func() { w.exec(`UPDATE pgflow.worker_functions SET function_name = 'g' WHERE function_name = 'f'`) })
	w.Expect(d.Lookup("f").State).To(BeNil())
	w.expectWake("f", func() { w.exec(`UPDATE pgflow.worker_functions SET function_name = 'f' WHERE function_name = 'g'`) })

	w.expectWake("f", func() { w.exec(`DELETE FROM pgflow.worker_functions WHERE function_name = 'f'`) })
	w.expectWake("f", func() { w.register("f") })

	w.Expect(w.wakes.of(user("other"))).To(Equal(others))
}

func TestHeartbeatsWakeNobody(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.register("f")
	d := w.acquire("f")
	w.listens(d)
	w.expectWake("f", func() { w.start("f") })
	before := w.wakes.of(user("f"))
	for range 3 {
		beat := d.Lookup("f").State.ReadyWorker.LastHeartbeatAt
		w.exec(`UPDATE pgflow.workers SET last_heartbeat_at = clock_timestamp()`)
		d.Refresh("f")
		w.Eventually(func() time.Time { return d.Lookup("f").State.ReadyWorker.LastHeartbeatAt }).
			Should(BeTemporally(">", beat))
	}
	w.Consistently(func() int { return w.wakes.of(user("f")) }).Should(Equal(before))
}

func TestRefreshFindsWhatNobodyNotified(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.register("f")
	d := w.acquire("f")
	w.listens(d)
	w.exec(`ALTER TABLE pgflow.worker_functions DISABLE TRIGGER USER`)
	w.exec(`UPDATE pgflow.worker_functions SET enabled = false`)
	before := w.wakes.of(user("f"))
	w.Consistently(func() int { return w.wakes.of(user("f")) }).Should(Equal(before))
	w.expectWake("f", func() { d.Refresh("f") })
	w.Expect(d.Lookup("f").State.Enabled).To(BeFalse())
	d.Refresh("f")
	d.Refresh("nobody's")
	w.Consistently(func() int { return w.wakes.of(user("f")) }).Should(Equal(before + 1))
}

func TestSweepFindsWhatNobodyNotified(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: 1500 * time.Millisecond})
	w.register("f")
	d := w.acquire("f")
	w.listens(d)
	w.exec(`ALTER TABLE pgflow.worker_functions DISABLE TRIGGER USER`)
	w.expectWake("f", func() { w.exec(`UPDATE pgflow.worker_functions SET enabled = false`) })
}

func TestEmptyPayloadMeansAll(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	long := strings.Repeat("a", 8000)
	d := w.acquire(long)
	w.listens(d)
	w.expectWake(long, func() { w.register(long) })
	w.Expect(d.Lookup(long).State.FunctionName).To(Equal(long))
}

func TestUserWithoutRegistration(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	d := w.acquire("f")
	o := d.Lookup("f")
	w.Expect(o.Read).To(BeTrue())
	w.Expect(o.State).To(BeNil())
	w.Expect(o.Err).NotTo(HaveOccurred())
	w.Expect(o.Now).To(BeTemporally("~", time.Now(), time.Second))

	w.Expect(d.Lookup("unknown").Read).To(BeFalse(), "nobody reads for nobody")

	// One that comes later is read at once, not with the next sweep.
	w.listens(d)
	w.register("g")
	w.acquire("g")
	w.Expect(d.Lookup("g").State).NotTo(BeNil())
}

func TestNotificationReachesWakeSoon(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{})
	w.register("f")
	d := w.acquire("f")
	w.listens(d)
	var took []time.Duration
	for range 50 {
		woken := w.wakes.of(user("f"))
		worker := w.start("f")
		w.Eventually(func() int { return w.wakes.of(user("f")) }).Should(Equal(woken + 1))
		begun := time.Now()
		w.exec(`SELECT pgflow.mark_worker_stopped($1)`, worker)
		w.Eventually(func() int { return w.wakes.of(user("f")) }).Should(Equal(woken + 2))
		took = append(took, w.wakes.lastOf(user("f")).Sub(begun))
	}
	slices.Sort(took)
	t.Logf("stop to wake: median %v, worst %v of %d", took[len(took)/2], took[len(took)-1], len(took))
	w.Expect(took[len(took)/2]).To(BeNumerically("<", 50*time.Millisecond))
}
