package suite_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

var _ = Describe("A database whose writes hang", func() {
	It("does not keep the functions of another one waiting", func(ctx SpecContext) {
		const crowd = 60 // more than are reconciled at once
		slow := newSite(ctx).withSecrets(ctx, operatorNamespace, "")
		slow.exec(ctx, `INSERT INTO pgflow.worker_functions (function_name)
			SELECT 'hangs-' || i FROM generate_series(1, $1::int) i`, crowd)
		lock, err := slow.pool.Begin(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx context.Context) { _ = lock.Rollback(ctx) })
		_, err = lock.Exec(ctx, `SELECT FROM pgflow.worker_functions FOR UPDATE`)
		Expect(err).NotTo(HaveOccurred())

		for i := range crowd {
			f := slow.deploy(ctx, nil)
			f.name = fmt.Sprint("hangs-", i+1)
			f.apply(ctx, nil)
		}
		Eventually(func() string {
			return slow.text(ctx, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'pgflow-operator' AND wait_event_type = 'Lock'`)
		}).ShouldNot(Equal("0"))

		// A call of the slow one takes five seconds, and a crowd of them that many times more.
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		Eventually(f.ready).WithTimeout(4 * time.Second).Should(Equal(isTrue(v1alpha1.ReasonWorkerReady)))
	})

	It("shows what it has of a function whose row somebody holds, and starts it afterwards", func(ctx SpecContext) {
		f := standard.deploy(ctx, nil).apply(ctx, nil)
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
		f.due(ctx)
		lock, err := standard.pool.Begin(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx context.Context) { _ = lock.Rollback(ctx) })
		_, err = lock.Exec(ctx, `SELECT FROM pgflow.worker_functions WHERE function_name = $1 FOR UPDATE`, f.name)
		Expect(err).NotTo(HaveOccurred())

		f.stop(ctx)
		f.becomes(isFalse(v1alpha1.ReasonStarting)) // and not with a worker that has ended
		Expect(f.status().Worker).To(BeNil())
		Expect(lock.Rollback(ctx)).To(Succeed())
		f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	})
})
