package faults_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// What goes wrong between the operator and a function, one function each, under one operator. Nothing here kills or
// redeploys a runtime.
func TestDeliveriesAndStartsFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	w.operator()
	for _, row := range []struct {
		name string
		test func(*testing.T, *world)
	}{
		{"start-fails", startFails},
		{"lost-accept", acknowledgementIsLost},
		{"lost-answer", answerIsLost},
		{"expired", expiresDuringInitialisation},
		{"late", lateAndForeignRequests},
		{"superseded", supersededByTokenlessWorker},
		{"two-runtimes", twoRuntimesGetOneInvocation},
		{"redelivered", redeliveredToHealthyWorker},
		{"legacy-lost-answer", legacyAnswerIsLost},
		{"told-the-key", endpointTellsTheKey},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.test(t, w)
		})
	}
}

// A runtime whose initialisation fails dismisses, and serves the next invocation itself.
func startFails(t *testing.T, w *world) {
	f := w.function(t, "start-fails", spec{runtime: func(c *edgeruntime.FunctionConfig) { c.FailStarts = 2 }})
	f.ready()
	f.g.Expect(f.sent()).To(HaveLen(3))
	f.g.Expect(f.state().Boots).To(BeEquivalentTo(1), "the same runtime served them all")
	f.g.Expect(f.admitted()).To(Equal(1))
	f.g.Expect(f.registration().FailedStarts).To(Equal(0))
}

// The runtime does not hear that it was accepted, and asks again.
func acknowledgementIsLost(t *testing.T, w *world) {
	f := w.function(t, "lost-accept", spec{runtime: func(c *edgeruntime.FunctionConfig) { c.LoseAcceptAnswers = 2 }})
	f.ready()
	f.g.Expect(f.sent()).To(HaveLen(1))
	f.g.Expect(f.admitted()).To(Equal(1))
}

// The operator does not hear that the worker has started; the database knows.
func answerIsLost(t *testing.T, w *world) {
	f := w.function(t, "lost-answer", spec{required: true, runtime: func(c *edgeruntime.FunctionConfig) { c.Mode = edgeruntime.ModeLost }})
	f.ready()
	f.g.Expect(f.admitted()).To(Equal(1))
	// The answer is lost when the worker is ready, so nothing is left to be sent again.
	f.g.Expect(f.sent()).To(HaveLen(1))
}

// The connection is closed without an answer: the request may have arrived. Only a function that takes part gets the id
// again; another one gets another id.
func legacyAnswerIsLost(t *testing.T, w *world) {
	drop := func(c *edgeruntime.FunctionConfig) { c.Mode, c.ModeCount = edgeruntime.ModeDrop, 1 }
	part := w.function(t, "dropped", spec{required: true, runtime: drop})
	old := w.function(t, "legacy-dropped", spec{pendingTimeout: 3 * time.Second, runtime: func(c *edgeruntime.FunctionConfig) { legacy(c); drop(c) }})
	part.ready()
	ids := part.sent()
	part.g.Expect(ids).To(HaveLen(2))
	part.g.Expect(ids[1]).To(Equal(ids[0]))
	old.ready()
	ids = old.sent()
	old.g.Expect(ids).To(HaveLen(2))
	old.g.Expect(ids[1]).NotTo(Equal(ids[0]))
}

// The invocation expires while the worker is initialised; that worker is refused, and the same runtime serves the next
// invocation.
func expiresDuringInitialisation(t *testing.T, w *world) {
	f := w.function(t, "expired", spec{pendingTimeout: 3 * time.Second, runtime: func(c *edgeruntime.FunctionConfig) { c.Hold = edgeruntime.HoldInit }})
	first := f.pending().Invocation
	f.arrived(first)
	f.eventually(func() uuid.UUID { return f.registration().LastID }).Should(Equal(first))
	// From here on one invocation lasts long enough for whatever this machine does meanwhile.
	f.exec(`UPDATE pgflow.worker_functions SET pending_timeout = '60 s' WHERE function_name = $1`, f.name)
	f.eventually(func() bool {
		row := f.registration()
		return row.Phase == "pending" && time.Until(row.ExpiresAt) > 10*time.Second
	}).Should(BeTrue())
	second := f.pending().Invocation
	f.arrived(second)
	f.release()
	f.eventually(f.served).Should(Succeed())

	f.g.Expect(f.admitted()).To(Equal(1))
	f.g.Expect(f.registration().LastID).To(Equal(second), "the first was refused: nothing of it was admitted")
	f.g.Expect(f.state().Boots).To(BeEquivalentTo(1))
	answers := f.requests(t.Context(), f.name)
	f.g.Expect(answers[0].InvocationID).To(Equal(first.String()))
}

// Requests with ids that are not the pending one arrive while another invocation is pending; none of them changes
// anything or admits anybody.
func lateAndForeignRequests(t *testing.T, w *world) {
	other := w.function(t, "foreign", spec{runtime: func(c *edgeruntime.FunctionConfig) { c.Hold = edgeruntime.HoldBoot }})
	f := w.function(t, "late", spec{runtime: func(c *edgeruntime.FunctionConfig) { c.FailStarts = 1 }})
	worker := f.ready()
	ids := f.sent() // a dismissed one and an accepted one
	f.g.Expect(ids).To(HaveLen(2))
	foreign := other.pending().Invocation

	f.patch(map[string]any{"hold": edgeruntime.HoldInit})
	f.stop()
	f.eventually(f.sent).Should(HaveLen(3))
	f.eventually(func() int { return f.state().Held }).Should(Equal(1))
	current := f.pending()
	f.patch(map[string]any{"pods": 2}) // the held runtime works on a request and would keep the others waiting
	var waiting []<-chan int
	refused := 0
	for range 2 { // of two requests one comes to the pod that is free
		for _, id := range []string{ids[0], ids[1], foreign.String(), uuid.NewString(), "no id at all"} {
			answered := f.post(id)
			select {
			case code := <-answered:
				f.g.Expect(code).To(Equal(http.StatusConflict), id)
				refused++
			case <-time.After(500 * time.Millisecond): // it waits behind the start that is held
				waiting = append(waiting, answered)
			}
			row := f.registration()
			f.g.Expect(row.Invocation).To(Equal(current.Invocation), "%s changed it", id)
			f.g.Expect(row.ExpiresAt).To(Equal(current.ExpiresAt))
		}
	}
	f.g.Expect(refused).To(BeNumerically(">", 0))
	f.g.Expect(other.registration().Invocation).To(Equal(foreign), "another function's id is still pending")
	f.release()
	f.replaced(worker)
	f.g.Expect(f.admitted()).To(Equal(2))
	f.g.Expect(f.registration().LastID).To(Equal(current.Invocation))
	for _, answered := range waiting { // by now the first worker's id is that of a start whose function has a worker again
		f.eventually(answered).Should(Receive(BeElementOf(http.StatusConflict, http.StatusOK)))
	}
	f.g.Expect(f.admitted()).To(Equal(2))
	other.release()
	other.ready()
	other.g.Expect(other.sent()).To(Equal([]string{foreign.String()}))
}

// A worker without an invocation, as the old cron starts them, registers while the invited one is initialised. The
// invitation is over: neither the initialised worker nor a later copy of it is admitted, and it does not touch the next one.
func supersededByTokenlessWorker(t *testing.T, w *world) {
	f := w.function(t, "superseded", spec{runtime: func(c *edgeruntime.FunctionConfig) { c.Hold = edgeruntime.HoldInit }})
	superseded := f.pending().Invocation
	f.eventually(func() int { return f.state().Held }).Should(Equal(1))
	tokenless := uuid.New()
	f.exec(`INSERT INTO pgflow.workers (worker_id, queue_name, function_name) VALUES ($1, $2, $2)`, tokenless, f.name)
	row := f.registration()
	f.g.Expect(row.Ready).To(Equal(tokenless))
	f.g.Expect(row.Outcome).To(Equal("unverified"))
	f.release()
	f.eventually(func() int { return f.requests(t.Context(), f.name)[0].Status }).Should(Equal(http.StatusConflict))
	f.g.Expect(f.requests(t.Context(), f.name)[0].Answer).To(ContainSubstring("superseded"))

	f.patch(map[string]any{"hold": edgeruntime.HoldInit})
	f.exec(`SELECT pgflow.mark_worker_stopped($1)`, tokenless)
	next := f.pending().Invocation
	f.eventually(func() int { return f.state().Held }).Should(Equal(1))
	answered := f.post(superseded.String()) // it waits for the start that is under way
	f.g.Consistently(func() uuid.UUID { return f.registration().Invocation }).WithTimeout(300 * time.Millisecond).Should(Equal(next))
	f.release()
	f.eventually(f.served).Should(Succeed())
	f.g.Expect(f.registration().LastID).To(Equal(next))
	f.eventually(answered).Should(Receive(Equal(http.StatusConflict)))
	f.g.Expect(f.state().Boots).To(BeEquivalentTo(1), "the refused runtime serves the next one")
	f.g.Expect(f.admitted()).To(Equal(2))
}

// One request reaches two cold runtimes of different pods at once, both past `receive`: one worker.
func twoRuntimesGetOneInvocation(t *testing.T, w *world) {
	f := w.function(t, "two-runtimes", spec{runtime: func(c *edgeruntime.FunctionConfig) {
		c.Pods, c.Duplicates, c.Hold = 3, 2, edgeruntime.HoldInit
	}})
	f.eventually(func() int { return f.state().Held }).Should(Equal(3))
	f.g.Expect(f.registration().Phase).To(Equal("pending"), "receipt clears nothing")
	f.release()
	f.ready()
	f.g.Expect(f.sent()).To(HaveLen(1))
	f.g.Expect(f.admitted()).To(Equal(1))
}

// A copy of the request arrives when the worker runs, at its runtime and at a fresh one: both acknowledge, again and again.
func redeliveredToHealthyWorker(t *testing.T, w *world) {
	f := w.function(t, "redelivered", spec{})
	worker := f.ready()
	for _, fresh := range []bool{false, true, false, true} {
		again, err := f.runtime.Duplicate(t.Context(), f.name, fresh)
		f.g.Expect(err).NotTo(HaveOccurred())
		f.g.Expect(again.Status).To(Equal(http.StatusOK), again.Answer)
		f.g.Expect(again.Answer).To(ContainSubstring(`"acknowledged"`))
	}
	f.g.Expect(f.registration().Ready).To(Equal(worker))
	f.g.Expect(f.admitted()).To(Equal(1))
}

// An endpoint that repeats the key in its answers does not bring it into a status, an event or a log; the world looks.
func endpointTellsTheKey(t *testing.T, w *world) {
	f := w.function(t, "told-the-key", spec{pendingTimeout: 3 * time.Second, runtime: func(c *edgeruntime.FunctionConfig) {
		c.Mode, c.ModeCount, c.Status = edgeruntime.ModeStatus, 1, http.StatusForbidden
		c.Body = `{"message":"refused: Bearer ` + w.key + `"}`
	}})
	f.eventually(func() string { return f.condition("Stalled") }).Should(Equal("True AuthRejected"))
	f.g.Expect(f.registration().Reason).To(Equal("auth_rejected"))
}

// The gateway is down when an invocation is reserved, and back before it expires: the same id is delivered, once.
func TestGatewayComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	w.gateway.down()
	first := w.operator()
	all := []*function{w.function(t, "participating", spec{}), w.function(t, "legacy", spec{runtime: legacy})}
	reserved := map[*function]string{}
	for _, f := range all {
		reserved[f] = f.pending().Invocation.String()
	}
	w.eventually(func() []string { return first.lines("attempt failed", reserved[all[0]]) }).ShouldNot(BeEmpty())
	w.gateway.up()
	w.allReady(all...)
	for _, f := range all {
		w.g.Expect(f.sent()).To(Equal([]string{reserved[f]}))
		w.g.Expect(f.admitted()).To(Equal(1))
	}

	// A request that a frozen network delivers when its invocation is over, and the function has another worker.
	late := w.function(t, "late", spec{pendingTimeout: 3 * time.Second})
	worker := late.ready()
	w.gateway.freeze()
	late.stop()
	expired := late.pending().Invocation
	w.eventually(func() uuid.UUID { return late.registration().LastID }).Should(Equal(expired))
	w.gateway.thaw()
	late.replaced(worker)
	late.ready()
	w.g.Expect(late.admitted()).To(Equal(2))
}
