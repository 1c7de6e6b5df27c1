package suite_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

var _ = Describe("Starting", func() {
	It("starts a new function with one request: pending, then ready", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.Hold = edgeruntime.HoldInit }).apply(ctx, nil)
		f.becomes(isFalse(v1alpha1.ReasonStarting))
		Eventually(func() state { return f.condition(v1alpha1.ConditionInvocationPending) }).Should(Equal(isTrue(v1alpha1.ReasonReserved)))
		Expect(f.condition(v1alpha1.ConditionReconciling)).To(Equal(isTrue(v1alpha1.ReasonStarting)))
		Expect(f.status().Phase).To(Equal(v1alpha1.PhasePending))
		pending := f.status().Invocation
		Expect(pending.ID).To(Equal(f.column(ctx, "invocation_id")))

		Eventually(f.arrived(ctx)).Should(Equal(1))
		Expect(f.edge.Release(ctx, f.name)).To(Succeed())
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))

		sent := f.requests(ctx)
		Expect(sent).To(HaveLen(1))
		Expect(sent[0].InvocationID).To(Equal(pending.ID))
		Expect(sent[0].Authorized).To(BeTrue())
		Expect(f.liveWorkers(ctx)).To(Equal(1))
		s := f.status()
		Expect(s.Phase).To(Equal(v1alpha1.PhaseReady))
		Expect(s.Worker.Verified).To(BeTrue())
		Expect(s.Worker.ID).To(Equal(f.text(ctx, `SELECT worker_id FROM pgflow.workers WHERE function_name = $1`, f.name)))
		Expect(s.LastOutcome.Outcome).To(Equal(v1alpha1.OutcomeAccepted))
		Expect(s.LastOutcome.InvocationID).To(Equal(pending.ID))
		Expect(f.condition(v1alpha1.ConditionRegistered)).To(Equal(isTrue(v1alpha1.ReasonRegistered)))
		Expect(f.condition(v1alpha1.ConditionReconciling)).To(Equal(absent))
		Expect(f.condition(v1alpha1.ConditionInvocationPending)).To(Equal(absent))
		Expect(history.reasons(f.key)).NotTo(ContainElement(v1alpha1.ReasonRetrying))
	})

	It("replaces a worker with two status writes, no event and no line in the log", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		f.age(ctx, "1 minute")
		first := f.status().Worker.ID
		Eventually(func() bool { return f.status().Worker.StartedAt.Before(&f.obj.CreationTimestamp) }).Should(BeTrue())
		writes, mark := f.writes(), logs.mark()

		f.stop(ctx)
		Eventually(func() string { return workerID(f) }).ShouldNot(Or(BeEmpty(), Equal(first)))
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))

		Consistently(f.writes).WithTimeout(300 * time.Millisecond).Should(BeNumerically("<=", writes+2))
		for _, s := range history.writes(f.key)[writes:] {
			Expect(s.Conditions[0].Type).To(Equal(v1alpha1.ConditionReady))
			Expect(s.Conditions[0].Reason).To(BeElementOf(v1alpha1.ReasonReplacing, v1alpha1.ReasonWorkerReady))
		}
		Expect(f.requests(ctx)).To(HaveLen(2))
		Expect(f.liveWorkers(ctx)).To(Equal(1))
		Expect(logs.since(mark, f.name)).To(BeEmpty())
		Expect(eventReasons(ctx, f.obj)).To(BeEmpty())
	})

	It("is Ready while a worker is replaced, for as long as that is ordinary", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		f.age(ctx, "1 minute")
		f.reconfigure(ctx, map[string]any{"hold": "init"})

		f.stop(ctx)
		f.becomes(isTrue(v1alpha1.ReasonReplacing))
		Expect(f.condition(v1alpha1.ConditionInvocationPending)).To(Equal(isTrue(v1alpha1.ReasonReserved)))
		Expect(f.condition(v1alpha1.ConditionReconciling)).To(Equal(absent))

		// pending_timeout after its end, though the invocation itself is still pending.
		f.exec(ctx, `UPDATE pgflow.workers SET stopped_at = stopped_at - interval '59.5 seconds' WHERE function_name = $1`, f.name)
		f.becomes(isFalse(v1alpha1.ReasonStarting))
		Expect(f.edge.Release(ctx, f.name)).To(Succeed())
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})

	It("does not call the end of a worker ordinary that lived less than 10 s", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.Debounce = duration(time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		f.reconfigure(ctx, map[string]any{"hold": "init"})
		f.stop(ctx)
		f.becomes(isFalse(v1alpha1.ReasonThrottled))
		Expect(f.status().NextAttemptAt).NotTo(BeNil())
		f.becomes(isFalse(v1alpha1.ReasonStarting))
		Expect(f.requests(ctx)).To(HaveLen(2))
	})

	It("writes nothing for heartbeats and time alone, and reconciles nobody", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.Heartbeat = ms(20) }).
			apply(ctx, func(s *spec) { s.HeartbeatTimeout = duration(time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		beat := f.lastBeat(ctx)
		version, before := f.version(ctx), reconciles()
		// Longer than heartbeat_timeout, so that its deadline passes and is found to have moved.
		Consistently(func() string { return f.version(ctx) }).WithTimeout(1500 * time.Millisecond).WithPolling(20 * time.Millisecond).
			Should(Equal(version))
		Expect(f.lastBeat(ctx)).NotTo(Equal(beat))
		Expect(reconciles()).To(Equal(before))
	})

	It("sends one request for a boot that is slower than the debounce", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.Boot = ms(2500) }).
			apply(ctx, func(s *spec) { s.Debounce, s.PendingTimeout = duration(time.Second), duration(20*time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveLen(1))
		Expect(f.text(ctx, `SELECT count(*) FROM pgflow.workers WHERE function_name = $1`, f.name)).To(Equal("1"))
	})

	It("admits one worker when the request is delivered to several runtimes", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.Pods, c.Duplicates = 4, 3 }).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Eventually(func() []edgeruntime.RequestRecord { return f.requests(ctx) }).Should(HaveEach(HaveField("Status", Not(BeZero()))))
		Expect(f.liveWorkers(ctx)).To(Equal(1))
	})

	DescribeTable("shows legacy workers as not verified", func(ctx SpecContext, kind edgeruntime.Kind) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.Kind = kind }).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerUnverified))
		Expect(f.status().Worker.Verified).To(BeFalse())
		Expect(f.status().Registration.TakesPart).To(BeFalse())
		Expect(f.status().LastOutcome.Outcome).To(Equal(v1alpha1.OutcomeUnverified))
		Expect(f.requests(ctx)).To(HaveLen(1))
	},
		Entry("of pgflow 0.14", edgeruntime.Legacy014),
		Entry("of pgflow 0.15", edgeruntime.Legacy015),
	)

	It("starts again what expired, and says how often it failed", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.Hold = edgeruntime.HoldInit }).
			apply(ctx, func(s *spec) { s.Debounce, s.PendingTimeout = duration(time.Second), duration(time.Second) })
		f.becomes(isFalse(v1alpha1.ReasonThrottled))
		Expect(f.message(v1alpha1.ConditionReady)).To(ContainSubstring("expired"))
		Expect(f.status().LastOutcome.Outcome).To(Equal(v1alpha1.OutcomeExpired))
		f.becomes(isFalse(v1alpha1.ReasonRetrying))
		Eventually(f.arrived(ctx)).Should(Equal(2))
		Expect(f.edge.Release(ctx, f.name)).To(Succeed())
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.liveWorkers(ctx)).To(Equal(1))
	})
})

func workerID(f *function) string {
	if w := f.status().Worker; w != nil {
		return w.ID
	}
	return ""
}
