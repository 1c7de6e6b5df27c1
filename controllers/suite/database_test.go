package suite_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// together runs scenarios at the same time, because each waits for seconds. They may not call DeferCleanup.
func together(scenarios ...func()) {
	GinkgoHelper()
	var all sync.WaitGroup
	for _, scenario := range scenarios {
		all.Go(func() {
			defer GinkgoRecover()
			scenario()
		})
	}
	all.Wait()
}

var _ = Describe("Databases", func() {
	It("in trouble: each is shown as what it is, and recovers by itself", func(ctx SpecContext) {
		tenant := func(s *site, dsn string) *function {
			return s.withSecrets(ctx, operatorNamespace, dsn).deploy(ctx, nil)
		}
		first, line := siteBehindLink(ctx)
		away := tenant(first, line.url).apply(ctx, func(s *spec) { s.Debounce = duration(time.Second) })
		second, never := siteBehindLink(ctx)
		never.cut()
		unreachable := tenant(second, never.url).apply(ctx, nil)
		bare := tenant(newEmptySite(ctx), "").apply(ctx, nil)
		third := newSite(ctx)
		login := newLogin(third)
		DeferCleanup(func(ctx SpecContext) { login.drop(ctx, third) })
		poor := tenant(third, login.url).apply(ctx, nil)
		fourth := newSite(ctx)
		fourth.exec(ctx, `ALTER DATABASE "`+strings.TrimPrefix(parsed(fourth.url).Path, "/")+`" SET default_transaction_read_only = on`)
		replica := tenant(fourth, "").apply(ctx, nil)

		together(
			func() { away.goesAway(ctx, line) },
			func() { unreachable.wasNeverThere(ctx, never) },
			func() { bare.lacksTheHandshake(ctx) },
			func() { poor.lacksRights(ctx, login) },
			func() {
				replica.becomes(isFalse(v1alpha1.ReasonDatabaseReadOnly))
				Expect(replica.condition(v1alpha1.ConditionRegistered)).To(Equal(isFalse(v1alpha1.ReasonRegistrationMissing)))
			},
		)
	})
})

// goesAway: for a moment is nobody's business, for longer is shown once.
func (f *function) goesAway(ctx context.Context, line *link) {
	GinkgoHelper()
	f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	outages := func() int { return len(logs.since(0, `"cannot read the database" "database"="`+line.address)) }
	writes := f.writes()

	line.cut()
	Eventually(outages).Should(Equal(1))
	// What a person wants meanwhile is not lost, though nothing changes in the database.
	f.change(ctx, func(s *spec) { s.PendingTimeout = duration(44 * time.Second) })
	Consistently(f.writes).WithTimeout(500 * time.Millisecond).Should(Equal(writes))
	line.mend()
	Eventually(func() string { return f.column(ctx, "pending_timeout") }).Should(Equal("00:00:44"))
	f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	Expect(history.reasons(f.key)).NotTo(ContainElement(v1alpha1.ReasonDatabaseUnavailable))
	Expect(f.requests(ctx)).To(HaveLen(1))

	line.cut()
	f.becomes(isUnknown(v1alpha1.ReasonDatabaseUnavailable))
	Expect(f.condition(v1alpha1.ConditionReconciling)).To(Equal(isTrue(v1alpha1.ReasonDatabaseUnavailable)))
	Expect(f.condition(v1alpha1.ConditionRegistered)).To(Equal(isUnknown(v1alpha1.ReasonDatabaseUnavailable)))
	writes = f.writes()
	Consistently(f.writes).WithTimeout(time.Second).Should(Equal(writes))
	f.stop(ctx)
	line.mend()
	f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
	Expect(f.requests(ctx)).To(HaveLen(2))
	Expect(outages()).To(Equal(2), "one line an outage")
}

// wasNeverThere: the object says at once that nothing is known yet.
func (f *function) wasNeverThere(ctx context.Context, line *link) {
	GinkgoHelper()
	Eventually(func() []string { return history.reasons(f.key) }).Should(ContainElement(v1alpha1.ReasonObserving))
	f.becomes(isUnknown(v1alpha1.ReasonDatabaseUnavailable))
	Expect(history.latest(f.key).Finalizers).To(BeEmpty())
	Expect(f.message(v1alpha1.ConditionReady)).To(ContainSubstring("connection refused"))

	// What was a person's to mend is no longer shown when it is mended, though the database is still away.
	secret := f.own.AuthSecretRef.Name
	deleteSecret(ctx, operatorNamespace, secret)
	f.becomes(isFalse(v1alpha1.ReasonSecretMissing))
	putSecret(ctx, operatorNamespace, secret, "key", f.site.key)
	f.becomes(isUnknown(v1alpha1.ReasonObserving))
	line.mend()
	f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
}

// lacksTheHandshake: what to run is said, in status and log, and that it was run is noticed.
func (f *function) lacksTheHandshake(ctx context.Context) {
	GinkgoHelper()
	f.becomes(isFalse(v1alpha1.ReasonSchemaMissing))
	Expect(f.message(v1alpha1.ConditionReady)).To(ContainSubstring("manager migrate"))
	Expect(logs.since(0, "manager migrate")).NotTo(BeEmpty())
	f.migrate(ctx)
	f.becomes(isTrue(v1alpha1.ReasonWorkerReady))

	// Uninstalled beneath a running operator, and installed again. Rows stay, so the worker does, and nothing vouches for
	// it any more.
	Expect(pgstate.Uninstall(ctx, f.url)).To(Succeed())
	f.becomes(isFalse(v1alpha1.ReasonSchemaMissing))
	f.migrate(ctx)
	f.becomes(isTrue(v1alpha1.ReasonWorkerUnverified))
}

// lacksRights: from a role that does not exist to one that may do all that is needed.
func (f *function) lacksRights(ctx context.Context, as login) {
	GinkgoHelper()
	f.becomes(isFalse(v1alpha1.ReasonDatabaseAuthenticationFailed))
	f.exec(ctx, `CREATE ROLE `+as.role+` LOGIN PASSWORD '`+as.password+`'`)
	f.becomes(isFalse(v1alpha1.ReasonDatabasePermissionDenied))

	f.exec(ctx, `GRANT USAGE ON SCHEMA pgflow TO `+as.role)
	f.exec(ctx, `GRANT SELECT ON ALL TABLES IN SCHEMA pgflow TO `+as.role)
	// It can be read now, and not be written.
	Eventually(func() state { return f.condition(v1alpha1.ConditionRegistered) }).Should(Equal(isFalse(v1alpha1.ReasonRegistrationMissing)))
	Expect(f.ready()).To(Equal(isFalse(v1alpha1.ReasonDatabasePermissionDenied)))
	Expect(f.condition(v1alpha1.ConditionStalled)).To(Equal(isTrue(v1alpha1.ReasonDatabasePermissionDenied)))

	f.exec(ctx, `GRANT ALL ON ALL TABLES IN SCHEMA pgflow TO `+as.role)
	f.exec(ctx, `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgflow TO `+as.role)
	f.change(ctx, func(s *spec) { s.Debounce = duration(2 * time.Second) }) // at once, instead of after half a minute
	f.becomes(isTrue(v1alpha1.ReasonWorkerReady))
}

func siteBehindLink(ctx context.Context) (*site, *link) {
	GinkgoHelper()
	s := newSite(ctx)
	return s, newLink(s.url)
}

// login is a role that does not exist yet, and the URL with which it would connect.
type login struct{ role, password, url string }

func newLogin(s *site) login {
	GinkgoHelper()
	role := strings.ReplaceAll(uniqueName("role"), "-", "_")
	password := secrets.add("password-of-" + role)
	u := parsed(s.url)
	u.User = url.UserPassword(role, password)
	return login{role: role, password: password, url: u.String()}
}

func (l login) drop(ctx context.Context, s *site) {
	GinkgoHelper()
	s.exec(ctx, `DROP OWNED BY `+l.role)
	s.exec(ctx, `DROP ROLE `+l.role)
}

func parsed(raw string) *url.URL {
	GinkgoHelper()
	u, err := url.Parse(raw)
	Expect(err).NotTo(HaveOccurred())
	return u
}
