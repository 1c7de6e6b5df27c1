package suite_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

var _ = Describe("Bad input", func() {
	DescribeTable("that is refused at apply", func(ctx SpecContext, change func(*spec), says string) {
		err := k8s.Create(ctx, standard.deploy(ctx, nil).object(change))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(says)))
	},
		Entry("the operator's key for an own endpoint", func(s *spec) {
			s.Endpoint = &v1alpha1.Endpoint{URL: "http://elsewhere.example/functions/v1"}
		}, "the operator's own key never goes to an endpoint named here"),
		Entry("an own database for the operator's endpoint", func(s *spec) {
			s.DatabaseSecretRef = &v1alpha1.SecretKeyRef{Name: "a", Key: "b"}
		}, "databaseSecretRef needs endpoint and authSecretRef"),
		Entry("a URL without scheme", func(s *spec) {
			s.Endpoint, s.AuthSecretRef = &v1alpha1.Endpoint{URL: "kong:8000"}, &v1alpha1.SecretKeyRef{Name: "a", Key: "b"}
		}, "must be an http:// or https:// URL"),
		Entry("a tiny duration", func(s *spec) { s.PendingTimeout = duration(time.Millisecond) }, "from 1s to 1h"),
	)

	It("that only shows later is a condition each, with what to do; nobody is reconciled for it again and nothing is lost", func(ctx SpecContext) {
		site := newSite(ctx)
		tenant := func(dsn string) *function {
			return site.withSecrets(ctx, operatorNamespace, dsn).deploy(ctx, nil)
		}
		notURL := tenant("host=somewhere user=me")
		noPassword := tenant("postgres://postgres@127.0.0.1/postgres")
		reads := tenant(site.url + "&passfile=/etc/passwd")
		noSecret := tenant("")
		noSecret.own.AuthSecretRef.Name = "nowhere"
		notAllowed := standard.deploy(ctx, nil)
		notAllowed.key.Namespace = strangersNamespace
		unknown := standard.deploy(ctx, nil)
		Expect(unknown.edge.Remove(ctx, unknown.name)).To(Succeed())

		cases := []struct {
			f      *function
			reason string
			do     string
		}{
			{notURL, v1alpha1.ReasonDatabaseURLInvalid, "correct key"},
			{noPassword, v1alpha1.ReasonDatabaseURLInvalid, "correct key"},
			{reads, v1alpha1.ReasonDatabaseURLInvalid, "correct key"},
			{noSecret, v1alpha1.ReasonSecretMissing, "create it"},
			{notAllowed, v1alpha1.ReasonNamespaceNotAllowed, "--allowed-namespaces"},
			{unknown, v1alpha1.ReasonRouteNotFound, "deploy it"},
		}
		for _, c := range cases {
			c.f.apply(ctx, nil)
		}
		for _, c := range cases {
			c.f.becomes(isFalse(c.reason))
			Expect(c.f.condition(v1alpha1.ConditionStalled)).To(Equal(isTrue(c.reason)))
			Expect(c.f.message(v1alpha1.ConditionReady)).To(ContainSubstring(c.do))
			Eventually(func() []string { return eventReasons(ctx, c.f.obj) }).Should(ConsistOf(c.reason))
		}
		duplicate := unknown.twin(allowedNamespace)
		unknown.older()
		duplicate.apply(ctx, nil)
		duplicate.becomes(isFalse(v1alpha1.ReasonDuplicate))

		settle()
		before := reconciles()
		Consistently(reconciles).WithTimeout(time.Second).Should(Equal(before))
		Expect(unknown.requests(ctx)).To(HaveLen(1))

		// Each recovers by itself when its cause is gone.
		for _, f := range []*function{notURL, noPassword, reads} {
			writeSecret(ctx, operatorNamespace, f.own.DatabaseSecretRef.Name, "url", site.url)
			f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		}
		Expect(k8s.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "nowhere"}, StringData: map[string]string{"key": site.key},
		})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { deleteSecret(ctx, operatorNamespace, "nowhere") })
		noSecret.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})
})

// settle waits until no reconcile is under way or due at once.
func settle() {
	GinkgoHelper()
	last, since := reconciles(), time.Now()
	Eventually(func() bool {
		if n := reconciles(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 200*time.Millisecond
	}).Should(BeTrue())
}
