package delivery

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// hanging is a server that answers only when released, or never.
func hanging(t *testing.T) (url string, got *seenRequests, release func()) {
	free := make(chan struct{})
	server, got := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-free:
		case <-r.Context().Done():
		}
	})
	return server.URL, got, sync.OnceFunc(func() { close(free) })
}

// SIGTERM: what is in flight is abandoned, never dismissed, and nothing begins
// afterwards.
func TestShutdown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	endpoint, got, _ := hanging(t)
	d := start(t)
	waiting := request(endpoint)
	d.Deliver(waiting.Request)
	retrying := request("http://" + refusedAddress(t))
	retrying.Function = "retrying"
	d.Deliver(retrying.Request)
	dismissing := request(endpoint)
	dismissing.Function = ".."
	entered := make(chan struct{})
	dismissing.Dismiss = func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}
	d.Deliver(dismissing.Request)
	within(g, got.count).Should(Equal(1))
	<-entered

	d.stop()
	for _, req := range []*asked{waiting, retrying, dismissing} {
		g.Expect(req.result(t).Outcome).To(Equal(Abandoned), req.Function)
		g.Expect(req.reasons()).To(BeEmpty())
	}
	late := request(endpoint)
	d.Deliver(late.Request)
	g.Expect(late.result(t).Outcome).To(Equal(Abandoned))
	g.Expect(got.count()).To(Equal(1))
}

// What is delivered before Start waits for it; Start works once.
func TestStart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, got := serve(t, func(http.ResponseWriter, *http.Request) {})
	var early *asked
	d := start(t, func(d *Dispatcher) {
		early = request(server.URL)
		d.Deliver(early.Request)
		g.Consistently(got.count).WithTimeout(50 * time.Millisecond).Should(BeZero())
	})
	g.Expect(early.result(t).Outcome).To(Equal(Delivered))
	g.Expect(d.Start(t.Context())).To(MatchError(ContainSubstring("started before")))
}

// The same id is sent once, in flight and afterwards; Knows tells how it goes.
func TestSameIDIsIgnored(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	endpoint, got, release := hanging(t)
	d := start(t)
	req := request(endpoint)
	_, known := d.Knows(req.Database, req.Function, req.InvocationID)
	g.Expect(known).To(BeFalse())
	d.Deliver(req.Request)
	within(g, got.count).Should(Equal(1))
	result, known := d.Knows(req.Database, req.Function, req.InvocationID)
	g.Expect(known).To(BeTrue())
	g.Expect(result).To(Equal(Result{InvocationID: req.InvocationID, Outcome: Sending}))
	again := req.Request
	again.Done = func(Result) { t.Error("Done of an ignored request was called") }
	d.Deliver(again)
	release()
	g.Expect(req.result(t).Outcome).To(Equal(Delivered))
	d.Deliver(again)
	result, known = d.Knows(req.Database, req.Function, req.InvocationID)
	g.Expect(known).To(BeTrue())
	g.Expect(result.Outcome).To(Equal(Delivered))
	_, known = d.Knows(req.Database, req.Function, uuid.New())
	g.Expect(known).To(BeFalse())
	d.Forget(req.Object, req.Database, req.Function)
	_, known = d.Knows(req.Database, req.Function, req.InvocationID)
	g.Expect(known).To(BeFalse())
	d.stop()
	g.Expect(got.count()).To(Equal(1))
}

// A newer id takes the place of an older one, and begins only when that has
// ended. Other functions, and the same function of another database, go on.
func TestNewerIDCancels(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	endpoint, got, release := hanging(t)
	d := start(t)
	elsewhere := request(endpoint)
	elsewhere.Database = "other:5432/postgres"
	d.Deliver(elsewhere.Request)
	var underWay atomic.Int32
	var all []*asked
	for range 20 {
		req := request(endpoint)
		req.Done = func(r Result) { underWay.Add(-1); req.done <- r }
		all = append(all, req)
		underWay.Add(1)
		d.Deliver(req.Request)
	}
	for _, req := range all[:19] {
		g.Expect(req.result(t).Outcome).To(Equal(Abandoned))
		g.Expect(req.reasons()).To(BeEmpty())
	}
	within(g, underWay.Load).Should(Equal(int32(1)))
	release()
	g.Expect(all[19].result(t).Outcome).To(Equal(Delivered))
	g.Expect(elsewhere.result(t).Outcome).To(Equal(Delivered))
	_, known := d.Knows(all[18].Database, all[18].Function, all[18].InvocationID)
	g.Expect(known).To(BeFalse())
	g.Expect(got.count()).To(BeNumerically(">=", 2))
}

// A newer id waits for an older one that cannot be stopped at once, also across
// an id between them.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, got := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	d := start(t)
	entered, free := make(chan struct{}), make(chan struct{})
	stubborn := request(server.URL)
	stubborn.Dismiss = func(context.Context, string) error { close(entered); <-free; return nil }
	d.Deliver(stubborn.Request)
	<-entered
	between, last := request(server.URL), request(server.URL)
	d.Deliver(between.Request)
	d.Deliver(last.Request)
	g.Consistently(got.count).WithTimeout(50 * time.Millisecond).Should(Equal(1))
	close(free)
	g.Expect(stubborn.result(t).Outcome).To(Equal(Abandoned))
	g.Expect(between.result(t).Outcome).To(Equal(Abandoned))
	g.Expect(last.result(t).Outcome).To(Equal(Refused))
}

// Forget ends what is in flight.
func TestForgetAbandons(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	endpoint, got, _ := hanging(t)
	d := start(t)
	req := request(endpoint)
	d.Deliver(req.Request)
	within(g, got.count).Should(Equal(1))
	// An object that went too late to know of its heir's delivery.
	d.Forget(types.NamespacedName{Namespace: "ns", Name: "other"}, req.Database, req.Function)
	result, known := d.Knows(req.Database, req.Function, req.InvocationID)
	g.Expect(known).To(BeTrue())
	g.Expect(result.Outcome).To(Equal(Sending))
	d.Forget(req.Object, req.Database, req.Function)
	g.Expect(req.result(t).Outcome).To(Equal(Abandoned))
	d.Forget(req.Object, req.Database, "unheard of")
}

// A dismissal that fails is tried again, a few times.
func TestDismissalIsRetried(t *testing.T) {
	t.Parallel()
	server, got := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	for _, tc := range []struct{ failures, calls int32 }{{2, 3}, {1000, maxDismissals}} {
		g := NewWithT(t)
		before := got.count()
		req := request(server.URL)
		var calls atomic.Int32
		req.Dismiss = func(ctx context.Context, reason string) error {
			deadline, ok := ctx.Deadline()
			g.Expect(ok).To(BeTrue())
			g.Expect(time.Until(deadline)).To(BeNumerically("~", dismissTimeout, 5*time.Second))
			g.Expect(reason).To(Equal(ReasonAuthRejected))
			if calls.Add(1) <= tc.failures {
				return errors.New("database away")
			}
			return nil
		}
		start(t).Deliver(req.Request)
		g.Expect(req.result(t)).To(Equal(Result{InvocationID: req.InvocationID, Outcome: Refused, Reason: ReasonAuthRejected, Status: 403, Attempts: 1}))
		g.Expect(calls.Load()).To(Equal(tc.calls))
		g.Expect(got.count()).To(Equal(before + 1))
	}
}

// An invocation without time is not sent.
func TestExpiredIsNotSent(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, got := serve(t, func(http.ResponseWriter, *http.Request) {})
	req := request(server.URL)
	req.ExpiresIn = 0
	start(t).Deliver(req.Request)
	g.Expect(req.result(t)).To(Equal(Result{InvocationID: req.InvocationID, Outcome: NotDelivered, Message: "expired before it could be sent"}))
	g.Expect(got.count()).To(BeZero())
}

// No more attempts than allowed are under way; who waits for a slot is sent in
// its turn, and a delivery that waits to send again holds none.
func TestConcurrencyIsBounded(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const limit, total = 4, 40
	var now, most atomic.Int32
	server, got := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(2 * time.Millisecond) //nolint:forbidigo // the server's working time, nothing waits for luck
		now.Add(-1)
		w.WriteHeader(http.StatusBadGateway)
	})
	d := start(t, func(d *Dispatcher) { d.slots = make(chan struct{}, limit) })
	var all []*asked
	for i := range total {
		req := request(server.URL)
		req.Function = "f" + strconv.Itoa(i)
		req.resend(2)
		all = append(all, req)
		d.Deliver(req.Request)
	}
	for _, req := range all {
		g.Expect(req.result(t).Attempts).To(Equal(3))
	}
	g.Expect(got.count()).To(Equal(3 * total))
	g.Expect(most.Load()).To(BeNumerically("<=", limit))
	g.Expect(d.slots).To(BeEmpty())
}

// Who gets no slot before the invocation expires was not delivered.
func TestNoSlotInTime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	endpoint, got, _ := hanging(t)
	d := start(t, func(d *Dispatcher) { d.slots = make(chan struct{}, 1) })
	d.Deliver(request(endpoint).Request)
	within(g, got.count).Should(Equal(1))
	req := request(endpoint)
	req.Function, req.ExpiresIn = "other", 50*time.Millisecond
	d.Deliver(req.Request)
	g.Expect(req.result(t)).To(Equal(Result{InvocationID: req.InvocationID, Outcome: NotDelivered, Message: "expired before it could be sent"}))
}

func TestBackoff(t *testing.T) {
	g := NewWithT(t)
	b := New(Options{}).waits.connect
	for _, want := range []float64{0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5} {
		g.Expect(b.next().Seconds()).To(BeNumerically("~", want, 0.2001*want))
	}
	u := New(Options{}).waits.uncertain
	g.Expect(u.next().Seconds()).To(BeNumerically("~", 1, 0.2001))
}

// A dismissal that waits for another try is not made once the end has begun.
func TestShutdownBetweenDismissals(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	d := start(t, func(d *Dispatcher) { d.waits.dismiss = backoff{wait: patience, limit: patience} })
	req := request("http://" + refusedAddress(t))
	req.Function = ".."
	var calls atomic.Int32
	req.Dismiss = func(context.Context, string) error { calls.Add(1); return errors.New("database away") }
	d.Deliver(req.Request)
	within(g, calls.Load).Should(Equal(int32(1)))
	d.stop()
	g.Expect(req.result(t).Outcome).To(Equal(Abandoned))
	g.Expect(calls.Load()).To(Equal(int32(1)))
}

// An id that is no longer wanted is not sent, however often no connection was
// found before, nor after it has waited for a slot; nothing is dismissed.
func TestNoLongerWanted(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	endpoint, got, _ := hanging(t)
	d := start(t, func(d *Dispatcher) { d.slots = make(chan struct{}, 1) })
	var wanted atomic.Bool
	wanted.Store(true)
	retrying := request("http://" + refusedAddress(t))
	retrying.Wanted = wanted.Load
	retrying.Resend = func() bool { t.Error("Resend was asked"); return true }
	tried := make(chan struct{}, 100)
	retrying.Progress = func(Result) { tried <- struct{}{} }
	d.Deliver(retrying.Request)
	<-tried
	wanted.Store(false)
	result := retrying.result(t)
	g.Expect(result.Outcome).To(Equal(Abandoned))
	g.Expect(result.Message).To(ContainSubstring("connection refused"))
	g.Expect(retrying.reasons()).To(BeEmpty())

	wanted.Store(true)
	busy := request(endpoint)
	busy.Function = "busy"
	d.Deliver(busy.Request)
	within(g, got.count).Should(Equal(1))
	waiting := request(endpoint)
	waiting.Wanted = wanted.Load
	d.Deliver(waiting.Request)
	wanted.Store(false)
	d.Forget(busy.Object, busy.Database, busy.Function)
	g.Expect(waiting.result(t)).To(Equal(Result{InvocationID: waiting.InvocationID, Outcome: Abandoned}))
	g.Expect(got.count()).To(Equal(1))
	g.Expect(d.slots).To(BeEmpty())
}

// Where an attempt goes is asked anew each time: nothing is sent while there is
// no target, and a corrected one is used for the same id, at once with Hurry.
func TestTargetIsCorrected(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, got := serve(t, func(http.ResponseWriter, *http.Request) {})
	d := start(t, func(d *Dispatcher) { d.waits.connect = backoff{wait: patience, limit: patience} })
	var target atomic.Pointer[func() (Target, bool)]
	point := func(f func() (Target, bool)) { target.Store(&f) }
	asked := make(chan struct{}, 100)
	req := request(server.URL)
	req.ExpiresIn = time.Hour
	req.Target = func() (Target, bool) { asked <- struct{}{}; return (*target.Load())() }
	tried := make(chan struct{}, 100)
	req.Progress = func(Result) { tried <- struct{}{} }
	point(to("http://" + refusedAddress(t)))
	d.Deliver(req.Request)
	<-asked
	<-tried

	point(func() (Target, bool) { return Target{}, false })
	d.Hurry(req.Object, req.Database, req.Function)
	<-asked
	g.Expect(got.count()).To(BeZero())

	point(to(server.URL))
	d.Hurry(types.NamespacedName{Namespace: "ns", Name: "other"}, req.Database, req.Function)
	d.Hurry(req.Object, req.Database, "unheard of")
	g.Consistently(asked).WithTimeout(50 * time.Millisecond).ShouldNot(Receive())
	d.Hurry(req.Object, req.Database, req.Function)
	g.Expect(req.result(t)).To(Equal(Result{InvocationID: req.InvocationID, Outcome: Delivered, Status: 200, Attempts: 2}))
	g.Expect(got.count()).To(Equal(1))
	g.Expect(d.slots).To(BeEmpty())
}
