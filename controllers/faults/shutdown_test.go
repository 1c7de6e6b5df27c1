package faults_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// promptly is how long an operator that was told to end may take.
const promptly = 5 * time.Second

// atLast is when it has ended even if no server answers: the last statuses and the lease are worth some seconds, and the database's
// driver tries for 15 s to cancel a statement that was under way.
const atLast = 25 * time.Second

// SIGTERM while requests hang: the operator abandons them, dismisses nothing, and its successor finishes the starts.
func TestTerminatedWhileDeliveriesHang(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	first := w.operator()
	var all []*function
	for i := range 10 {
		s := spec{required: true}
		if i%2 == 1 {
			s = spec{pendingTimeout: expiry, runtime: legacy}
		}
		all = append(all, w.function(t, name("hanging", i), s))
	}
	w.allReady(all...)
	reserved := map[*function]registration{}
	for _, f := range all {
		f.patch(map[string]any{"mode": edgeruntime.ModeHang, "modeCount": 1})
		f.stop()
	}
	for _, f := range all {
		reserved[f] = f.pending()
		f.arrived(reserved[f].Invocation)
	}
	took := first.terminate()
	t.Logf("ended after %v", took)
	w.g.Expect(took).To(BeNumerically("<", promptly))
	w.g.Expect(first.code).To(Equal(0), "%s", tail(first.output(), 2000))
	for _, f := range all {
		now := f.registration()
		if f.legacy && now.Phase != "pending" { // it may have expired by now, which closes nothing
			w.g.Expect(now.Phase).To(Equal("retryable"))
		} else {
			w.g.Expect(now.Phase).To(Equal("pending"))
		}
		w.g.Expect(now.Invocation).To(Equal(reserved[f].Invocation))
		w.g.Expect(now.LastID).To(Equal(reserved[f].LastID), "nothing was dismissed")
	}

	w.operator()
	w.allReady(all...)
	for _, f := range all {
		ids := f.sent()
		w.g.Expect(ids).To(HaveLen(3), f.name)
		if f.legacy {
			w.g.Expect(ids[2]).NotTo(Equal(ids[1]), f.name)
		} else {
			w.g.Expect(ids[2]).To(Equal(ids[1]), f.name)
		}
		w.g.Expect(f.admitted()).To(Equal(2))
	}
}

// SIGTERM while neither the API server nor the database answers.
func TestTerminatedWhileServersHang(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	o := w.operator(leading...)
	f := w.function(t, "hanging", spec{})
	f.ready()
	o.api.freeze()
	w.database.freeze()
	f.stop()
	took := o.terminate()
	t.Logf("ended after %v", took)
	w.g.Expect(took).To(BeNumerically("<", atLast))
}
