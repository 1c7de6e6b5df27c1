package suite_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

var _ = Describe("Phases", func() {
	It("of a function that the spec disables and enables", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.Enabled = new(false) })
		f.becomes(isTrue(v1alpha1.ReasonDisabled))
		Expect(f.status().Phase).To(Equal(v1alpha1.PhaseDisabled))
		Expect(f.condition(v1alpha1.ConditionStalled)).To(Equal(absent))
		f.change(ctx, func(s *spec) { s.Enabled = new(true) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveLen(1))
	})

	It("of a function that is disabled while its start is pending", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.Hold = edgeruntime.HoldInit }).apply(ctx, nil)
		Eventually(f.arrived(ctx)).Should(Equal(1))
		f.change(ctx, func(s *spec) { s.Enabled = new(false) })
		f.becomes(isTrue(v1alpha1.ReasonDisabled))
		Eventually(func() *v1alpha1.LastOutcome { return f.status().LastOutcome }).Should(HaveField("Reason", "disabled"))
		Expect(f.condition(v1alpha1.ConditionInvocationPending)).To(Equal(absent))
		Expect(f.status().LastOutcome.FailedStarts).To(BeZero())
		Expect(f.edge.Release(ctx, f.name)).To(Succeed())
		Consistently(func() int { return f.liveWorkers(ctx) }).WithTimeout(200 * time.Millisecond).Should(BeZero())
	})

	It("of a function whose process starts by itself", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.StartMode = new(v1alpha1.StartModeProcess) })
		f.becomes(isTrue(v1alpha1.ReasonProcessManaged))
		Expect(f.status().Phase).To(Equal(v1alpha1.PhaseProcess))
		Expect(f.requests(ctx)).To(BeEmpty())
	})

	It("of a function whose worker is deprecated: it drains, and another one is started", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		first := f.status().Worker.ID
		f.age(ctx, "1 minute")
		f.exec(ctx, `UPDATE pgflow.workers SET deprecated_at = clock_timestamp() WHERE worker_id = $1`, first)
		Eventually(func() string { return workerID(f) }).ShouldNot(Or(BeEmpty(), Equal(first)))
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Eventually(func() int { return f.liveWorkers(ctx) }).Should(Equal(1))
	})

	It("of a function whose worker was killed: its heartbeat ages, and another one is started", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.HeartbeatTimeout = duration(time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		first := f.status().Worker.ID
		f.age(ctx, "1 minute")
		_, err := f.edge.Kill(ctx, f.name)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string { return workerID(f) }).ShouldNot(Or(BeEmpty(), Equal(first)))
		Expect(f.requests(ctx)).To(HaveLen(2))
	})

	It("of replicas on one queue, which share no handshake", func(ctx SpecContext) {
		replicas := make([]*function, 3)
		for i := range replicas {
			replicas[i] = standard.deploy(ctx, func(c *runtimeConfig) { c.Queue = "shared" }).apply(ctx, nil)
		}
		for _, f := range replicas {
			f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		}
		standing := replicas[1].status().Worker.ID
		replicas[0].age(ctx, "1 minute")
		replicas[0].stop(ctx)
		Eventually(replicas[0].arrived(ctx)).Should(Equal(2))
		Expect(replicas[1].status().Worker.ID).To(Equal(standing))
		Eventually(func() string {
			return standard.text(ctx, `SELECT count(*) FROM pgflow.workers WHERE queue_name = 'shared' AND stopped_at IS NULL`)
		}).Should(Equal("3"))
	})

	It("of functions with names that need escaping, or cannot be sent", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil)
		name := "Ein Flow?#%2F" + f.name
		config := edgeruntime.DefaultFunction()
		Expect(f.edge.Configure(ctx, name, config)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { _ = f.edge.Remove(ctx, name) })
		f.name = name
		f.apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})
})
