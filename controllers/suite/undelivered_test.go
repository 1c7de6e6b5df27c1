package suite_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// severalTries is longer than the waits before the first few attempts of a delivery that finds no connection.
const severalTries = 4 * time.Second

var _ = Describe("An invocation that could not be delivered yet", func() {
	// waiting applies an object for a legacy function whose gateway is down, and returns its invocation.
	waiting := func(ctx context.Context) (*function, string) {
		GinkgoHelper()
		Expect(standard.edge.GatewayDown(ctx)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(standard.edge.GatewayUp(ctx)).To(Succeed()) })
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		Eventually(func() string { return f.message(v1alpha1.ConditionReady) }).Should(ContainSubstring("connection refused"))
		return f, f.status().Invocation.ID
	}
	neverArrives := func(ctx context.Context, f *function) {
		GinkgoHelper()
		Expect(f.edge.GatewayUp(ctx)).To(Succeed())
		Consistently(f.arrived(ctx)).WithTimeout(severalTries).Should(BeZero())
	}

	It("is not sent once a worker without invocation has closed it", func(ctx SpecContext) {
		f, id := waiting(ctx)
		f.exec(ctx, `UPDATE pgflow.worker_functions SET heartbeat_timeout = '1 h' WHERE function_name = $1`, f.name)
		f.exec(ctx, `INSERT INTO pgflow.workers (queue_name, worker_id, function_name) VALUES ('q', gen_random_uuid(), $1)`, f.name)
		f.becomes(isTrue(v1alpha1.ReasonWorkerUnverified))
		Expect(f.column(ctx, "last_invocation_id")).To(Equal(id))
		neverArrives(ctx, f)
	})

	It("is not sent once the function is disabled", func(ctx SpecContext) {
		f, _ := waiting(ctx)
		f.change(ctx, func(s *spec) { s.Enabled = new(false) })
		f.becomes(isTrue(v1alpha1.ReasonDisabled))
		neverArrives(ctx, f)
	})

	It("is not sent once the object is deleted", func(ctx SpecContext) {
		f, _ := waiting(ctx)
		f.delete(ctx)
		Eventually(f.isGone).Should(BeTrue())
		neverArrives(ctx, f)
	})

	It("is not sent while the object is suspended, and is afterwards", func(ctx SpecContext) {
		f, id := waiting(ctx)
		f.change(ctx, func(s *spec) { s.Suspend = true })
		Eventually(func() string { return f.ready().Reason }).Should(Equal(v1alpha1.ReasonSuspended))
		neverArrives(ctx, f)
		f.change(ctx, func(s *spec) { s.Suspend = false })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveExactElements(HaveField("InvocationID", id)))
	})

	It("goes to a corrected endpoint", func(ctx SpecContext) {
		tenant := newSite(ctx).withSecrets(ctx, operatorNamespace, "")
		right := tenant.own.Endpoint.URL
		tenant.own.Endpoint.URL = "http://127.0.0.1:1"
		f := tenant.deploy(ctx, nil).apply(ctx, nil)
		Eventually(func() string { return f.message(v1alpha1.ConditionReady) }).Should(ContainSubstring("connection refused"))
		id := f.status().Invocation.ID

		f.change(ctx, func(s *spec) { s.Endpoint.URL = right })
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveExactElements(HaveField("InvocationID", id)))
	})

	It("goes nowhere without a key, and then with the corrected one", func(ctx SpecContext) {
		tenant := newSite(ctx).withSecrets(ctx, operatorNamespace, "")
		secret := tenant.own.AuthSecretRef.Name
		writeSecret(ctx, operatorNamespace, secret, "key", "not the key")
		Expect(tenant.edge.GatewayDown(ctx)).To(Succeed())
		f := tenant.deploy(ctx, nil).apply(ctx, nil)
		Eventually(func() string { return f.message(v1alpha1.ConditionReady) }).Should(ContainSubstring("connection refused"))
		id := f.status().Invocation.ID

		deleteSecret(ctx, operatorNamespace, secret)
		f.becomes(isFalse(v1alpha1.ReasonSecretMissing))
		neverArrives(ctx, f)
		writeSecret(ctx, operatorNamespace, secret, "key", tenant.key)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		Expect(f.requests(ctx)).To(HaveExactElements(And(HaveField("InvocationID", id), HaveField("Authorized", true))))
	})
})
