package faults_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// expiry of the invocations that have to be waited for. It is long enough for an operator to be killed within it.
const expiry = 8 * time.Second

// The operator is killed when the database has reserved and before the operator knows: the answer is on its way. Its
// successor finds an invocation pending that it did not reserve.
func TestKilledBetweenReservingAndSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	first := w.operator()
	verified := w.function(t, "verified", spec{})
	required := w.function(t, "required", spec{required: true})
	old := w.function(t, "legacy", spec{pendingTimeout: expiry, runtime: legacy})
	all := []*function{verified, required, old}
	w.allReady(all...)

	// Held by their rows' locks, the reservations cannot be answered before the answers are kept back.
	locks, err := w.pool.Begin(t.Context())
	w.g.Expect(err).NotTo(HaveOccurred())
	_, err = locks.Exec(t.Context(), `SELECT FROM pgflow.worker_functions FOR NO KEY UPDATE`)
	w.g.Expect(err).NotTo(HaveOccurred())
	for _, f := range all {
		f.stop()
	}
	w.eventually(func() (blocked int) {
		w.g.Expect(w.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&blocked)).To(Succeed())
		return blocked
	}).WithPolling(5 * time.Millisecond).Should(Equal(len(all)))
	w.database.freezeAnswers()
	w.g.Expect(locks.Commit(t.Context())).To(Succeed())
	reserved := map[*function]uuid.UUID{}
	for _, f := range all {
		reserved[f] = f.pending().Invocation
	}
	first.kill()
	w.database.cut()
	w.database.thaw()
	for _, f := range all {
		w.g.Expect(f.sent()).To(HaveLen(1), "%s: only the first start was sent", f.name)
	}

	w.operator()
	for _, f := range []*function{verified, required} {
		f.ready()
		w.g.Expect(f.sent()[1:]).To(Equal([]string{reserved[f].String()}), "%s: the same id, once", f.name)
		w.g.Expect(f.admitted()).To(Equal(2))
	}
	// An id that may have been sent to workers that do not take part is not sent again.
	old.ready()
	w.g.Expect(old.sent()).To(HaveLen(2))
	w.g.Expect(old.sent()).NotTo(ContainElement(reserved[old].String()))
	w.g.Expect(old.admitted()).To(Equal(2))
}

// The operator is killed when its requests have arrived and before it could write a status; the boots go on.
func TestKilledBetweenSendingAndWritingStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	first := w.operator()
	part := w.function(t, "participating", spec{})
	old := w.function(t, "legacy", spec{runtime: legacy})
	lost := w.function(t, "legacy-lost", spec{pendingTimeout: expiry, runtime: legacy})
	all := []*function{part, old, lost}
	w.allReady(all...)

	first.api.freeze()
	reserved := map[*function]string{}
	for _, f := range all {
		f.patch(map[string]any{"hold": edgeruntime.HoldBoot})
		f.stop()
	}
	for _, f := range all {
		id := f.pending().Invocation
		f.arrived(id)
		reserved[f] = id.String()
	}
	first.kill()
	w.operator()
	lost.killRuntimes() // the boot that the request began
	lost.release()

	// Again, to a second runtime: the first one's boot is not over. Both are let go.
	part.eventually(part.sent).Should(HaveLen(3))
	w.g.Expect(part.sent()[1:]).To(HaveEach(reserved[part]))
	part.eventually(func() int { return part.state().Held }).Should(Equal(2))
	part.release()
	part.ready()
	w.g.Expect(part.admitted()).To(Equal(2))

	// The first request does it: no second one.
	old.eventually(func() string { return old.condition("InvocationPending") }).Should(Equal("True Reserved"))
	old.release()
	old.ready()
	w.g.Expect(old.sent()[1:]).To(Equal([]string{reserved[old]}))
	w.g.Expect(old.admitted()).To(Equal(2))

	// The first request is lost: another invocation, after the first has expired.
	lost.ready()
	w.g.Expect(lost.sent()).To(HaveLen(3))
	w.g.Expect(lost.sent()[1]).To(Equal(reserved[lost]))
	w.g.Expect(lost.sent()[2]).NotTo(Equal(reserved[lost]))
	w.g.Expect(lost.admitted()).To(Equal(2))
}
