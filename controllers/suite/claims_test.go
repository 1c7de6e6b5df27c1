package suite_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// older waits until what is made now is younger than f's object: the API server counts in seconds.
func (f *function) older() {
	GinkgoHelper()
	Eventually(func() bool { return time.Now().Unix() > f.obj.CreationTimestamp.Unix() }).Should(BeTrue())
}

var _ = Describe("Two objects for one registration", func() {
	It("are a duplicate each: the older acts, the others change nothing and take over one by one", func(ctx SpecContext) {
		first := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.Debounce = duration(2 * time.Second) })
		first.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		first.older()
		second := first.twin(operatorNamespace).apply(ctx, func(s *spec) { s.Debounce, s.Enabled = duration(3*time.Second), new(false) })
		second.older()
		third := first.twin(allowedNamespace).apply(ctx, func(s *spec) { s.Debounce = duration(4 * time.Second) })
		for _, duplicate := range []*function{second, third} {
			duplicate.becomes(isFalse(v1alpha1.ReasonDuplicate))
			Expect(duplicate.message(v1alpha1.ConditionReady)).To(ContainSubstring(first.key.String()))
			Expect(history.latest(duplicate.key).Finalizers).To(BeEmpty())
		}
		Expect(first.ready()).To(Equal(isTrue(v1alpha1.ReasonWorkerReady)))
		Expect(first.column(ctx, "debounce")).To(Equal("00:00:02"))

		// A younger one that goes changes nothing.
		second.delete(ctx)
		Eventually(second.isGone).Should(BeTrue())
		Expect(first.column(ctx, "enabled")).To(Equal("true"))

		// The older one goes: the registration has an heir and stays enabled.
		first.delete(ctx)
		third.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(first.isGone()).To(BeTrue())
		Expect(third.column(ctx, "enabled")).To(Equal("true"))
		Expect(third.column(ctx, "debounce")).To(Equal("00:00:04"))
		Expect(third.requests(ctx)).To(HaveLen(1))
	})

	It("are found in other databases' names for the same one, and act again when a Secret tells them apart", func(ctx SpecContext) {
		site := newSite(ctx)
		first := site.withSecrets(ctx, strangersNamespace, "").deploy(ctx, nil)
		first.key.Namespace = strangersNamespace
		first.apply(ctx, nil)
		first.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		first.older()
		tenant := site.withSecrets(ctx, allowedNamespace, "")
		second := first.twin(allowedNamespace)
		second.site = tenant
		second.apply(ctx, nil)
		second.becomes(isFalse(v1alpha1.ReasonDuplicate))

		// The older one's database becomes another one: nobody but it depends on that Secret.
		other := newSite(ctx)
		writeSecret(ctx, strangersNamespace, first.own.DatabaseSecretRef.Name, "url", other.url)
		second.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Eventually(func() string {
			return other.text(ctx, `SELECT count(*) FROM pgflow.worker_functions WHERE function_name = $1`, first.name)
		}).Should(Equal("1"))

		writeSecret(ctx, strangersNamespace, first.own.DatabaseSecretRef.Name, "url", site.url)
		second.becomes(isFalse(v1alpha1.ReasonDuplicate))
		first.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})
})

var _ = Describe("Suspended objects", func() {
	It("are watched and not acted on, and go on where they were", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, func(s *spec) { s.Suspend, s.Debounce = true, duration(2*time.Second) })
		f.becomes(isUnknown(v1alpha1.ReasonSuspended))
		Expect(f.row(ctx)).To(BeEmpty())
		Expect(history.latest(f.key).Finalizers).To(BeEmpty())

		f.change(ctx, func(s *spec) { s.Suspend = false })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		f.age(ctx, "1 minute")

		f.change(ctx, func(s *spec) { s.Suspend, s.Debounce = true, duration(3*time.Second) })
		f.becomes(isTrue(v1alpha1.ReasonSuspended))
		f.stop(ctx)
		Eventually(func() v1alpha1.Phase { return f.status().Phase }).Should(Equal(v1alpha1.PhaseRetryable))
		Expect(f.ready()).To(Equal(isTrue(v1alpha1.ReasonSuspended)))
		Consistently(f.arrived(ctx)).WithTimeout(200 * time.Millisecond).Should(Equal(1))
		Expect(f.column(ctx, "debounce")).To(Equal("00:00:02"))

		f.change(ctx, func(s *spec) { s.Suspend = false })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.column(ctx, "debounce")).To(Equal("00:00:03"))
		Expect(f.requests(ctx)).To(HaveLen(2))
	})

	It("leave the registration as it is when they are deleted", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		f.change(ctx, func(s *spec) { s.Suspend = true })
		f.becomes(isTrue(v1alpha1.ReasonSuspended))
		f.delete(ctx)
		Eventually(f.isGone).Should(BeTrue())
		Expect(f.column(ctx, "enabled")).To(Equal("true"))
	})
})
