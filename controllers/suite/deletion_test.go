package suite_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

var _ = Describe("Deletion", func() {
	It("disables the registration, and leaves the worker to end by itself", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(history.latest(f.key).Finalizers).To(ConsistOf(controllers.Finalizer))
		f.delete(ctx)
		Eventually(f.isGone).Should(BeTrue())
		Expect(f.column(ctx, "enabled")).To(Equal("false"))
		Expect(f.liveWorkers(ctx)).To(Equal(1))
	})

	It("closes a pending invocation", func(ctx SpecContext) {
		f := standard.deploy(ctx, func(c *runtimeConfig) { c.Hold = edgeruntime.HoldInit }).apply(ctx, nil)
		Eventually(func() state { return f.condition(v1alpha1.ConditionInvocationPending) }).Should(Equal(isTrue(v1alpha1.ReasonReserved)))
		f.delete(ctx)
		Eventually(f.isGone).Should(BeTrue())
		Expect(f.column(ctx, "invocation_id")).To(BeEmpty())
		Expect(f.column(ctx, "last_outcome_reason")).To(Equal("disabled"))
		Expect(f.edge.Release(ctx, f.name)).To(Succeed())
		Consistently(func() int { return f.liveWorkers(ctx) }).WithTimeout(200 * time.Millisecond).Should(BeZero())
	})

	It("with policy Orphan leaves the registration as it is, without a finalizer", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		f.change(ctx, func(s *spec) { s.DeletionPolicy = v1alpha1.DeletionPolicyOrphan })
		Eventually(func() []string { return history.latest(f.key).Finalizers }).Should(BeEmpty())
		f.delete(ctx)
		Eventually(f.isGone).Should(BeTrue())
		Expect(f.column(ctx, "enabled")).To(Equal("true"))
	})

	It("waits for the database or the Secret, and gives up after two minutes with an event", func(ctx SpecContext) {
		down := newSite(ctx)
		line := newLink(down.url)
		noDatabase := down.withSecrets(ctx, operatorNamespace, line.url).deploy(ctx, nil).apply(ctx, nil)
		noSecret := newSite(ctx).withSecrets(ctx, operatorNamespace, "").deploy(ctx, nil).apply(ctx, nil)
		returns := newSite(ctx).withSecrets(ctx, operatorNamespace, "").deploy(ctx, nil).apply(ctx, nil)
		all := []*function{noDatabase, noSecret, returns}
		for _, f := range all {
			f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		}

		line.cut()
		for _, f := range []*function{noSecret, returns} {
			deleteSecret(ctx, operatorNamespace, f.own.DatabaseSecretRef.Name)
			f.becomes(isFalse(v1alpha1.ReasonSecretMissing))
		}
		for _, f := range all {
			f.delete(ctx)
		}
		Consistently(func() bool { return noDatabase.isGone() || noSecret.isGone() || returns.isGone() }).
			WithTimeout(300 * time.Millisecond).Should(BeFalse())

		// One Secret comes back in time.
		writeSecret(ctx, operatorNamespace, returns.own.DatabaseSecretRef.Name, "url", returns.url)
		Eventually(returns.isGone).Should(BeTrue())
		Expect(returns.column(ctx, "enabled")).To(Equal("false"))

		now.move(2 * time.Minute)
		for _, f := range []*function{noDatabase, noSecret} {
			// It looks again every few seconds, and when one of its Secrets changes.
			writeSecret(ctx, operatorNamespace, f.own.AuthSecretRef.Name, "key", "another")
			Eventually(f.isGone).Should(BeTrue())
			Expect(f.column(ctx, "enabled")).To(Equal("true"))
			Eventually(func() []string { return eventReasons(ctx, f.obj) }).Should(ContainElement("NotDisabled"))
		}
		Expect(eventReasons(ctx, returns.obj)).NotTo(ContainElement("NotDisabled"))
	})

	It("of an object that never came to anything is immediate", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil)
		f.key.Namespace = strangersNamespace
		f.apply(ctx, nil)
		f.becomes(isFalse(v1alpha1.ReasonNamespaceNotAllowed))
		f.delete(ctx)
		Eventually(f.isGone).Should(BeTrue())
	})
})
