package suite_test

import (
	"crypto/rand"
	"net/url"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

var _ = Describe("Credentials", func() {
	It("tries a refused start again as soon as the operator's key changes", func(ctx SpecContext) {
		rotated := secrets.add(rand.Text())
		Expect(standard.edge.SetKey(ctx, rotated)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(standard.edge.SetKey(ctx, standard.key)).To(Succeed())
			putSecret(ctx, operatorNamespace, authSecret, authKey, standard.key)
		})
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isFalse(v1alpha1.ReasonAuthRejected))
		Expect(f.message(v1alpha1.ConditionReady)).To(ContainSubstring("Unauthorized"))

		writeSecret(ctx, operatorNamespace, authSecret, authKey, rotated)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveLen(2))
		Eventually(func() []string { return eventReasons(ctx, f.obj) }).Should(ContainElement("Recovered"))
	})

	It("uses an object's own endpoint, key and database, and only these", func(ctx SpecContext) {
		tenant := newSite(ctx).withSecrets(ctx, strangersNamespace, "")
		f := tenant.deploy(ctx, nil)
		f.key.Namespace = strangersNamespace
		f.apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveExactElements(HaveField("Authorized", true)))
		Expect(standard.text(ctx, `SELECT count(*) FROM pgflow.worker_functions WHERE function_name = $1`, f.name)).To(Equal("0"))

		// Its own key changes: refused once, then with the new key at once.
		f.age(ctx, "1 minute")
		rotated := secrets.add(rand.Text())
		Expect(tenant.edge.SetKey(ctx, rotated)).To(Succeed())
		f.stop(ctx)
		f.becomes(isFalse(v1alpha1.ReasonAuthRejected))
		writeSecret(ctx, strangersNamespace, tenant.own.AuthSecretRef.Name, "key", rotated)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})

	It("uses an object's own endpoint and key with the operator's database", func(ctx SpecContext) {
		elsewhere := newSite(ctx)
		writeSecret(ctx, allowedNamespace, "elsewhere", "key", elsewhere.key)
		f := standard.deploy(ctx, nil)
		f.key.Namespace = allowedNamespace
		config := runtimeConfig{}
		Expect(config.UnmarshalJSON([]byte(`{"mode":"status","status":401}`))).To(Succeed())
		Expect(elsewhere.edge.Configure(ctx, f.name, config)).To(Succeed())

		f.apply(ctx, func(s *spec) {
			s.Endpoint = &v1alpha1.Endpoint{URL: elsewhere.server.Addresses().FunctionsURL()}
			s.AuthSecretRef = &v1alpha1.SecretKeyRef{Name: "elsewhere", Key: "key"}
		})
		f.becomes(isFalse(v1alpha1.ReasonAuthRejected))
		arrived, err := elsewhere.edge.Requests(ctx, f.name, 0)
		Expect(err).NotTo(HaveOccurred())
		Expect(arrived).To(HaveExactElements(HaveField("Authorized", true)))
		Expect(f.requests(ctx)).To(BeEmpty())

		// Another endpoint clears the throttle as well: the operator's own.
		f.change(ctx, func(s *spec) { s.Endpoint, s.AuthSecretRef = nil, nil })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})

	It("lets allowed namespaces use the operator's set, and no others", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil)
		f.key.Namespace = allowedNamespace
		f.apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))

		stranger := standard.deploy(ctx, nil)
		stranger.key.Namespace = strangersNamespace
		stranger.apply(ctx, nil)
		stranger.becomes(isFalse(v1alpha1.ReasonNamespaceNotAllowed))
		Expect(stranger.message(v1alpha1.ConditionReady)).To(ContainSubstring("--allowed-namespaces"))
		Expect(stranger.row(ctx)).To(BeEmpty())
		Expect(stranger.requests(ctx)).To(BeEmpty())
	})

	It("notices that the operator's Secret goes and comes back", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		DeferCleanup(func(ctx SpecContext) { putSecret(ctx, operatorNamespace, authSecret, authKey, standard.key) })
		deleteSecret(ctx, operatorNamespace, authSecret)
		f.becomes(isFalse(v1alpha1.ReasonSecretMissing))
		Expect(f.message(v1alpha1.ConditionReady)).To(And(ContainSubstring(authSecret), ContainSubstring("create it")))
		Expect(f.condition(v1alpha1.ConditionRegistered)).To(Equal(isUnknown(v1alpha1.ReasonSecretMissing)))

		writeSecret(ctx, operatorNamespace, authSecret, authKey, standard.key)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})

	It("notices that the operator's database Secret is corrected", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { putSecret(ctx, operatorNamespace, databaseSecret, databaseKey, standard.url) })
		f := standard.deploy(ctx, nil)
		writeSecret(ctx, operatorNamespace, databaseSecret, databaseKey, "only-a-password")
		f.apply(ctx, nil)
		f.becomes(isFalse(v1alpha1.ReasonDatabaseURLInvalid))
		Expect(f.message(v1alpha1.ConditionReady)).NotTo(ContainSubstring("only-a-password"))

		wrong := parsed(standard.url)
		wrong.User = url.UserPassword("postgres", secrets.add(rand.Text()))
		writeSecret(ctx, operatorNamespace, databaseSecret, databaseKey, wrong.String())
		f.becomes(isFalse(v1alpha1.ReasonDatabaseAuthenticationFailed))

		writeSecret(ctx, operatorNamespace, databaseSecret, databaseKey, standard.url)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})

	It("does without a Secret that lacks the key, or holds an empty one, until that is mended", func(ctx SpecContext) {
		tenant := newSite(ctx).withSecrets(ctx, operatorNamespace, "")
		name := tenant.own.AuthSecretRef.Name
		writeSecret(ctx, operatorNamespace, name, "other", "x")
		f := tenant.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isFalse(v1alpha1.ReasonSecretMissing))
		Expect(f.message(v1alpha1.ConditionReady)).To(And(ContainSubstring(`"key"`), ContainSubstring("spec.authSecretRef")))
		writeSecret(ctx, operatorNamespace, name, "key", "")
		f.becomes(isFalse(v1alpha1.ReasonSecretInvalid))
		writeSecret(ctx, operatorNamespace, name, "key", tenant.key)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveLen(1))
	})

	It("leave no trace of a Secret in the cache but its name and version", func(ctx SpecContext) {
		secret := secretNamed(operatorNamespace, uniqueName("applied"))
		secret.Labels = map[string]string{"app": "postgres"}
		secret.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"stringData":{"url":"postgres://u:in-clear@h/d"}}`}
		Expect(k8s.Create(ctx, secret)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { deleteSecret(ctx, secret.Namespace, secret.Name) })
		seen := &metav1.PartialObjectMetadata{}
		seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		Eventually(func() error { return cached.Get(ctx, client.ObjectKeyFromObject(secret), seen) }).Should(Succeed())
		Expect(seen.ObjectMeta).To(Equal(metav1.ObjectMeta{
			Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
		}))
	})
})
