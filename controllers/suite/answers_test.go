package suite_test

import (
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// expire ends the function's current invocation.
func (f *function) expire(ctx SpecContext) {
	GinkgoHelper()
	f.set(ctx, `invocation_expires_at = clock_timestamp() - interval '1 millisecond'`)
}

// due makes the next attempt due now.
func (f *function) due(ctx SpecContext) {
	GinkgoHelper()
	f.set(ctx, `last_invoked_at = NULL`)
}

// answering makes the gateway answer every request itself.
func answering(status int, body string) func(*runtimeConfig) {
	return func(c *runtimeConfig) {
		c.Mode, c.Status, c.Body, c.Location = edgeruntime.ModeStatus, status, body, "http://127.0.0.1:1/elsewhere"
	}
}

// serving makes the gateway serve requests.
var serving = map[string]any{"mode": "serve"}

var _ = Describe("Answers", func() {
	DescribeTable("that refuse the request", func(ctx SpecContext, status int, body, outcome, reason string, waits time.Duration) {
		f := standard.deploy(ctx, answering(status, body)).apply(ctx, nil)
		f.becomes(isFalse(reason))

		Expect(f.condition(v1alpha1.ConditionStalled)).To(Equal(isTrue(reason)))
		Expect(f.condition(v1alpha1.ConditionInvocationPending)).To(Equal(absent))
		Expect(f.status().LastOutcome.Outcome).To(Equal(v1alpha1.OutcomeDismissed))
		Expect(f.status().LastOutcome.Reason).To(Equal(outcome))
		Expect(f.status().LastOutcome.FailedStarts).To(BeEquivalentTo(1))
		if strings.Contains(body, "what it says") {
			Expect(f.message(v1alpha1.ConditionReady)).To(ContainSubstring("what it says"))
		}
		Expect(f.requests(ctx)).To(HaveLen(1))
		next := f.status().NextAttemptAt
		Expect(next).NotTo(BeNil())
		Expect(time.Until(next.Time)).To(BeNumerically("~", waits, 8*time.Second))
		Eventually(func() []string { return eventReasons(ctx, f.obj) }).Should(ContainElement(reason))

		f.reconfigure(ctx, serving)
		f.due(ctx)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.status().LastOutcome.FailedStarts).To(BeZero())
	},
		Entry("401", http.StatusUnauthorized, `{"error":"what it says"}`, "auth_rejected", v1alpha1.ReasonAuthRejected, 5*time.Minute),
		Entry("403", http.StatusForbidden, `{"msg":"what it says"}`, "auth_rejected", v1alpha1.ReasonAuthRejected, 5*time.Minute),
		Entry("404", http.StatusNotFound, `{"message":"what it says"}`, "route_not_found", v1alpha1.ReasonRouteNotFound, 5*time.Minute),
		Entry("302", http.StatusFound, "", "redirected", v1alpha1.ReasonRefused, 12*time.Second),
		Entry("418", http.StatusTeapot, "not JSON", "http_418", v1alpha1.ReasonRefused, 12*time.Second),
	)

	DescribeTable("that leave open whether a runtime boots", func(ctx SpecContext, change func(*runtimeConfig), code int32) {
		f := standard.deploy(ctx, change).apply(ctx, nil)
		f.becomes(isFalse(v1alpha1.ReasonStarting))
		Eventually(f.arrived(ctx)).Should(Equal(1))
		if code != 0 {
			Eventually(func() *int32 { return lastCode(f) }).Should(HaveValue(Equal(code)))
			Expect(f.message(v1alpha1.ConditionReady)).To(ContainSubstring("what it says"))
		}
		Expect(f.condition(v1alpha1.ConditionInvocationPending)).To(Equal(isTrue(v1alpha1.ReasonReserved)))
		Expect(f.condition(v1alpha1.ConditionStalled)).To(Equal(absent))

		// Nobody knows that the function takes part: it is not sent again.
		f.expire(ctx)
		f.becomes(isFalse(v1alpha1.ReasonThrottled))
		Expect(f.requests(ctx)).To(HaveLen(1))
		Expect(f.status().LastOutcome.Outcome).To(Equal(v1alpha1.OutcomeExpired))

		f.reconfigure(ctx, serving)
		f.due(ctx)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveLen(2))
		Expect(f.liveWorkers(ctx)).To(Equal(1))
	},
		Entry("500", answering(http.StatusInternalServerError, `{"error":"what it says"}`), int32(500)),
		Entry("502", answering(http.StatusBadGateway, `{"error":"what it says"}`), int32(502)),
		Entry("503", answering(http.StatusServiceUnavailable, `{"error":"what it says"}`), int32(503)),
		Entry("none, the connection was closed", func(c *runtimeConfig) { c.Mode = edgeruntime.ModeDrop }, int32(0)),
		Entry("none, it hangs", func(c *runtimeConfig) { c.Mode = edgeruntime.ModeHang }, int32(0)),
	)

	It("are sent the same id again where the function takes part", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) {
			answering(http.StatusServiceUnavailable, "")(c)
			c.ModeCount = 1
		}).apply(ctx, func(s *spec) { s.Handshake = new(v1alpha1.HandshakeRequired) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		sent := f.requests(ctx)
		Expect(sent).To(HaveLen(2))
		Expect(sent[1].InvocationID).To(Equal(sent[0].InvocationID))
	})

	It("that are lost do not matter: the database counts", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.Mode = edgeruntime.ModeLost }).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveLen(1))
	})

	It("cannot come where nobody listens: the same id is sent until somebody does", func(ctx SpecContext) {
		Expect(standard.edge.GatewayDown(ctx)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(standard.edge.GatewayUp(ctx)).To(Succeed()) })
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		Eventually(func() string { return f.message(v1alpha1.ConditionReady) }).Should(ContainSubstring("connection refused"))
		Expect(f.ready()).To(Equal(isFalse(v1alpha1.ReasonStarting)))
		id := f.status().Invocation.ID

		Expect(standard.edge.GatewayUp(ctx)).To(Succeed())
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveExactElements(HaveField("InvocationID", id)))
	})

	It("from the runtime that its start failed lead to another start", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.FailStarts = 1 }).apply(ctx, nil)
		f.becomes(isFalse(v1alpha1.ReasonThrottled))
		Expect(f.message(v1alpha1.ConditionReady)).To(ContainSubstring("start_failed"))
		f.due(ctx)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.liveWorkers(ctx)).To(Equal(1))
	})
})

func lastCode(f *function) *int32 {
	if i := f.status().Invocation; i != nil {
		return i.LastHTTPStatus
	}
	return nil
}
