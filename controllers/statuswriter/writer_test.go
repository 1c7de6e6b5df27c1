package statuswriter

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// gate holds the first write until it is opened.
func gate() (before func(int) error, entered <-chan struct{}, open func()) {
	in, free := make(chan struct{}), make(chan struct{})
	return func(n int) error {
		if n == 1 {
			close(in)
			<-free
		}
		return nil
	}, in, sync.OnceFunc(func() { close(free) })
}

// The API server away: statuses wait, the newest of each object is written when
// it is back. Not parallel: the API server is everybody's.
func TestAPIServerAway(t *testing.T) {
	g := NewWithT(t)
	r := start(t, &wire{}, Options{})
	obj, other := r.create(t, "away"), r.create(t, "away-other")
	g.Expect(environment.StopAPIServer()).To(Succeed())
	r.Submit(obj, ready(metav1.ConditionFalse, "Starting"))
	r.Submit(other, ready(metav1.ConditionFalse, "Starting"))
	g.Eventually(r.wire.count).WithTimeout(patience).Should(BeNumerically(">", 2))
	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	g.Expect(reason(r.Latest(obj))).To(Equal("WorkerReady"))
	g.Expect(environment.StartAPIServer()).To(Succeed())
	r.within(t, obj).Should(HaveField("Conditions", ContainElement(HaveField("Reason", "WorkerReady"))))
	r.within(t, other).Should(HaveField("Conditions", ContainElement(HaveField("Reason", "Starting"))))
}

// While a write is in flight newer statuses replace each other; one write per
// object is under way.
func TestNewerReplacesOlder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before, entered, open := gate()
	r := start(t, &wire{before: before}, Options{})
	obj := r.create(t, "coalesce")
	r.Submit(obj, ready(metav1.ConditionFalse, "Starting"))
	<-entered
	for i := range 50 {
		r.Submit(obj, ready(metav1.ConditionFalse, fmt.Sprintf("Reason%d", i)))
	}
	g.Expect(reason(r.Latest(obj))).To(Equal("Reason49"))
	open()
	r.idle(t)
	g.Expect(r.wire.count()).To(Equal(2))
	g.Expect(r.wire.most).To(Equal(1))
	g.Expect(reason(r.read(t, obj).Status)).To(Equal("Reason49"))
}

// What the server has is not written again, whatever the age of the cached copy
// and the precision of times.
func TestEqualIsNotWritten(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := start(t, &wire{}, Options{})
	obj := r.create(t, "equal")
	status := ready(metav1.ConditionTrue, "WorkerReady")
	status.Worker = &v1alpha1.WorkerStatus{ID: "w", StartedAt: metav1.Time{Time: time.Now()}} // with nanoseconds
	r.Submit(obj, v1alpha1.WorkerFunctionStatus{Conditions: []metav1.Condition{}})
	r.idle(t)
	g.Expect(r.wire.count()).To(BeZero())
	r.Submit(obj, status)
	r.idle(t)
	g.Expect(r.wire.count()).To(Equal(1))
	for _, copied := range []*v1alpha1.WorkerFunction{obj, r.read(t, obj)} { // older and newer than the write
		g.Expect(reason(r.Latest(copied))).To(Equal("WorkerReady"))
		r.Submit(copied, status)
		r.Submit(copied, r.Latest(copied))
		r.idle(t)
	}
	g.Expect(r.wire.count()).To(Equal(1))

	// Two changes that cancel out while the first is in flight end as the last.
	fresh := r.read(t, obj)
	r.Submit(fresh, ready(metav1.ConditionFalse, "Starting"))
	r.Submit(fresh, status)
	r.idle(t)
	r.within(t, obj).Should(HaveField("Worker", Not(BeNil())))
}

// A status is written whole: what is no longer there goes.
func TestWhatIsGoneGoes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := start(t, &wire{}, Options{})
	obj := r.create(t, "gone")
	status := ready(metav1.ConditionTrue, "WorkerReady")
	status.Worker = &v1alpha1.WorkerStatus{ID: "w", StartedAt: metav1.Now()}
	status.Conditions = append(status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: "ValuesDiffer"})
	r.Submit(obj, status)
	r.idle(t)
	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	r.idle(t)
	got := r.read(t, obj).Status
	g.Expect(got.Worker).To(BeNil())
	g.Expect(got.Conditions).To(HaveLen(1))
}

// A spec edited and a status written by somebody else meanwhile do not stop a
// write, which replaces the one and keeps the other.
func TestForeignWrites(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := start(t, &wire{}, Options{})
	obj := r.create(t, "foreign")
	edited := r.read(t, obj)
	edited.Spec.Suspend = true
	g.Expect(r.client.Update(t.Context(), edited)).To(Succeed())
	edited.Status = ready(metav1.ConditionFalse, "Foreign")
	edited.Status.Conditions[0].LastTransitionTime = metav1.Now()
	edited.Status.LastOutcome = &v1alpha1.LastOutcome{InvocationID: "x", Outcome: "expired", At: metav1.Now()}
	g.Expect(r.client.Status().Update(t.Context(), edited)).To(Succeed())

	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady")) // obj is older than both
	r.idle(t)
	got := r.read(t, obj)
	g.Expect(got.Spec.Suspend).To(BeTrue())
	g.Expect(got.Status.LastOutcome).To(BeNil())
	g.Expect(reason(got.Status)).To(Equal("WorkerReady"))

	// A foreign write after ours is what Latest says once the cache has it, and
	// ours is written again.
	got.Status.Conditions[0].Reason = "Foreign"
	g.Expect(r.client.Status().Update(t.Context(), got)).To(Succeed())
	g.Expect(reason(r.Latest(obj))).To(Equal("WorkerReady"))
	fresh := r.read(t, obj)
	g.Expect(reason(r.Latest(fresh))).To(Equal("Foreign"))
	r.Submit(fresh, ready(metav1.ConditionTrue, "WorkerReady"))
	r.idle(t)
	g.Expect(reason(r.read(t, obj).Status)).To(Equal("WorkerReady"))
}

// A write that fails is tried again; one whose answer was lost leaves nothing
// half known: going back to what the cache has is written.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	lost := errors.New("answer lost")
	var r *rig
	var obj *v1alpha1.WorkerFunction
	w := &wire{}
	w.after = func(n int) error {
		if n == 1 {
			// In flight: back to the empty status that the cache still has.
			r.Submit(obj, v1alpha1.WorkerFunctionStatus{})
		}
		if n <= 2 {
			return lost
		}
		return nil
	}
	r = start(t, w, Options{})
	obj = r.create(t, "failed")
	r.Submit(obj, ready(metav1.ConditionFalse, "Starting"))
	g.Eventually(w.count).WithTimeout(patience).Should(BeNumerically(">=", 1))
	r.Submit(obj, v1alpha1.WorkerFunctionStatus{})
	r.idle(t)
	g.Expect(w.count()).To(Equal(3))
	g.Expect(r.read(t, obj).Status.Conditions).To(BeEmpty())
}

// A deleted object's status is dropped, and never lands on its successor.
func TestDeletedAndRecreated(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := start(t, &wire{}, Options{})
	obj := r.create(t, "recreated")
	g.Expect(r.client.Delete(t.Context(), obj.DeepCopy())).To(Succeed())
	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	r.idle(t)
	g.Expect(r.wire.count()).To(Equal(1))
	g.Expect(r.objects).To(BeEmpty())

	successor := r.create(t, "recreated")
	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	r.idle(t)
	g.Expect(r.wire.count()).To(Equal(2))
	g.Expect(r.read(t, successor).Status.Conditions).To(BeEmpty())
	g.Expect(r.objects).To(BeEmpty())
	g.Expect(r.Latest(successor)).To(Equal(v1alpha1.WorkerFunctionStatus{}))

	// The successor's status replaces what waits for its predecessor.
	r.Submit(obj, ready(metav1.ConditionTrue, "Predecessor"))
	r.Submit(successor, ready(metav1.ConditionTrue, "Successor"))
	r.idle(t)
	g.Expect(reason(r.read(t, successor).Status)).To(Equal("Successor"))
}

// A status that the schema refuses is dropped, not tried for ever; the next one
// is written.
func TestInvalid(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := start(t, &wire{}, Options{})
	obj := r.create(t, "invalid")
	bad := ready(metav1.ConditionTrue, "WorkerReady")
	bad.Phase = "NoSuchPhase"
	r.Submit(obj, bad)
	r.idle(t)
	g.Expect(r.wire.count()).To(Equal(1))
	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	r.idle(t)
	g.Expect(reason(r.read(t, obj).Status)).To(Equal("WorkerReady"))
}

// Forget drops what is queued, also while something is in flight.
func TestForget(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	before, entered, open := gate()
	r := start(t, &wire{before: before}, Options{})
	obj := r.create(t, "forget")
	r.Submit(obj, ready(metav1.ConditionFalse, "Starting"))
	<-entered
	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	r.Forget(client.ObjectKeyFromObject(obj))
	open()
	r.within(t, obj).Should(HaveField("Conditions", HaveLen(1)))
	r.stop()
	g.Expect(r.wire.count()).To(Equal(1))
	g.Expect(r.objects).To(BeEmpty())
}

// lastTransitionTime moves with the status of a condition, not with its reason.
func TestTransitionTimes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	begun := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	now := clocktesting.NewFakePassiveClock(begun)
	r := start(t, &wire{}, Options{Clock: now})
	obj := r.create(t, "times")
	at := func() time.Time { return r.Latest(obj).Conditions[0].LastTransitionTime.UTC() }
	r.Submit(obj, ready(metav1.ConditionFalse, "Starting"))
	g.Expect(at()).To(Equal(begun.Truncate(time.Second)))
	now.SetTime(begun.Add(time.Minute))
	r.Submit(obj, ready(metav1.ConditionFalse, "Retrying"))
	g.Expect(at()).To(Equal(begun.Truncate(time.Second)))
	r.idle(t)
	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	g.Expect(at()).To(Equal(begun.Truncate(time.Second).Add(time.Minute)))
	r.idle(t)
	g.Expect(r.read(t, obj).Status.Conditions[0].LastTransitionTime.UTC()).To(Equal(at()))
}

// What was written is kept no longer than the cache is behind.
func TestMemory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := start(t, &wire{}, Options{})
	obj := r.create(t, "memory")
	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	r.idle(t)
	g.Expect(reason(r.Latest(obj))).To(Equal("WorkerReady"))
	g.Expect(r.objects).To(HaveLen(1))
	g.Expect(reason(r.Latest(r.read(t, obj)))).To(Equal("WorkerReady"))
	g.Expect(r.objects).To(BeEmpty())
}

// The end of the operator: what is queued is written, but it does not wait for
// ever.
func TestFlush(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	w := &wire{before: func(n int) error {
		if n <= 3 {
			return errors.New("away")
		}
		return nil
	}}
	r := start(t, w, Options{})
	var objects []*v1alpha1.WorkerFunction
	for i := range 20 {
		objects = append(objects, r.create(t, fmt.Sprintf("flush-%d", i)))
	}
	for _, obj := range objects {
		r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	}
	g.Eventually(w.count).WithTimeout(patience).Should(BeNumerically(">=", 3)) // three wait for another try
	r.stop()
	for _, obj := range objects {
		g.Expect(reason(r.read(t, obj).Status)).To(Equal("WorkerReady"), obj.Name)
	}
}

// A server that hangs delays the end by no more than flushTimeout.
func TestFlushIsBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	hung := &wire{}
	r := start(t, hung, Options{})
	obj := r.create(t, "hung")
	hung.mu.Lock()
	next := hung.next
	hung.next = roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodPatch {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		return next.RoundTrip(req)
	})
	hung.mu.Unlock()
	r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	g.Eventually(hung.count).WithTimeout(patience).Should(Equal(1))
	begun := time.Now()
	r.stop()
	g.Expect(time.Since(begun)).To(BeNumerically("<", flushTimeout+5*time.Second))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// All objects together keep to the rate.
func TestRate(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := start(t, &wire{}, Options{}, func(w *Writer) { w.limit = rate.NewLimiter(20, 1) })
	var objects []*v1alpha1.WorkerFunction
	for i := range 11 {
		objects = append(objects, r.create(t, fmt.Sprintf("rate-%d", i)))
	}
	begun := time.Now()
	for _, obj := range objects {
		r.Submit(obj, ready(metav1.ConditionTrue, "WorkerReady"))
	}
	r.idle(t)
	g.Expect(time.Since(begun)).To(BeNumerically(">=", 500*time.Millisecond-time.Millisecond))
	g.Expect(r.wire.count()).To(Equal(len(objects)))
	g.Expect(r.wire.most).To(BeNumerically("<=", writeWorkers))
}

// After a write whose answer was lost it is not known what the server has: going
// back to what the cache has is written, not taken for equal.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	r := start(t, &wire{after: func(n int) error {
		if n == 1 {
			return errors.New("answer lost")
		}
		return nil
	}}, Options{})
	obj := r.create(t, "lost")
	r.Submit(obj, ready(metav1.ConditionFalse, "Starting"))
	r.within(t, obj).Should(HaveField("Conditions", HaveLen(1))) // it has arrived
	g.Eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.objects[client.ObjectKeyFromObject(obj)].flying == nil
	}).WithTimeout(patience).WithPolling(time.Millisecond).Should(BeTrue())
	r.Submit(obj, v1alpha1.WorkerFunctionStatus{})
	r.idle(t)
	g.Expect(r.read(t, obj).Status.Conditions).To(BeEmpty())
}
