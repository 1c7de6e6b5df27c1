package observer

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// A tenant's view may yield anything, however often and however long.
func TestAHostileViewIsBounded(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	w.register("f")
	w.exec(`ALTER VIEW pgflow.worker_function_states RENAME TO honest`)
	w.exec(`CREATE VIEW pgflow.worker_function_states AS
		SELECT function_name, enabled, start_mode, handshake, phase, ready_worker_id, verified, takes_part,
			last_heartbeat_at, heartbeat_timeout, invocation_id, invocation_expires_at, retry_at, failed_starts,
			last_invocation_id, repeat('o', 1000000) AS last_outcome, repeat('r', 1000000) AS last_outcome_reason,
			last_outcome_at, last_worker_id
		FROM pgflow.honest, generate_series(1, 1000000)`)
	d := w.acquire("f")
	state := d.Lookup("f").State
	w.Expect(state.LastOutcome).To(Equal(strings.Repeat("o", 512)))
	w.Expect(state.LastOutcomeReason).To(Equal(strings.Repeat("r", 512)))
}

// A database that does not answer holds no more callers than may write to it.
func TestTryWrite(t *testing.T) {
	t.Parallel()
	w := newMigratedWorld(t, Options{SweepInterval: never})
	d, err := w.registry.Acquire(user("f"), w.connection, "f")
	w.Expect(err).NotTo(HaveOccurred())
	var all []func()
	for range maxWriters {
		done, ok := d.TryWrite(user("f"))
		w.Expect(ok).To(BeTrue())
		all = append(all, done)
	}
	_, ok := d.TryWrite(user("waits"))
	w.Expect(ok).To(BeFalse())
	w.Expect(w.wakes.of(user("waits"))).To(BeZero())
	for _, done := range all {
		done()
	}
	w.Expect(w.wakes.of(user("waits"))).To(Equal(1), "when it is its turn, and once")
	done, ok := d.TryWrite(user("f"))
	w.Expect(ok).To(BeTrue())
	done()

	held, ok := w.registry.Held(user("f"))
	w.Expect(ok).To(BeTrue())
	w.Expect(held).To(BeIdenticalTo(d))
	w.registry.Release(user("f"))
	_, ok = w.registry.Held(user("f"))
	w.Expect(ok).To(BeFalse())
}
