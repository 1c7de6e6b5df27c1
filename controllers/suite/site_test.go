package suite_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// site is a database, the edge functions beside it and the key of these.
type site struct {
	url    string
	key    string
	pool   *pgxpool.Pool // the tests' own, as the superuser
	server *edgeruntime.Server
	edge   *edgeruntime.Client

	// spec makes an object of this site: it names the site's Secrets and endpoint. Nil for the standard site.
	own *v1alpha1.WorkerFunctionSpec
}

var names atomic.Int64

// uniqueName returns a name that nothing else in the suite has.
func uniqueName(kind string) string { return fmt.Sprintf("%s-%d", kind, names.Add(1)) }

// newSite makes a site with pgflow's tables and the handshake, for as long as the spec or the suite runs.
func newSite(ctx context.Context) *site {
	GinkgoHelper()
	s := newEmptySite(ctx)
	s.migrate(ctx)
	return s
}

// newEmptySite makes a site with an empty database.
func newEmptySite(ctx context.Context) *site {
	GinkgoHelper()
	name := uniqueName("site")
	dsn, err := cluster.CreateDatabase(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(cluster.DropDatabase(ctx, name)).To(Succeed()) })
	s := &site{url: dsn, key: secrets.add(rand.Text())}
	password, _ := parsed(dsn).User.Password()
	secrets.add(password)

	s.pool, err = pgxpool.New(context.Background(), dsn)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.pool.Close)
	s.server, err = edgeruntime.Start(edgeruntime.Options{DatabaseURL: dsn, Key: s.key})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(s.server.Close)
	s.edge = s.server.Client()
	return s
}

func (s *site) migrate(ctx context.Context) {
	GinkgoHelper()
	_, err := pgstate.Migrate(ctx, s.url, pgstate.MigrateOptions{CreateBaseTables: true})
	Expect(err).NotTo(HaveOccurred())
}

// withSecrets makes the site one of a tenant: its objects name Secrets and endpoint of their own. The database is
// reached by dsn, or the site's own URL where that is empty.
func (s *site) withSecrets(ctx context.Context, namespace, dsn string) *site {
	GinkgoHelper()
	if dsn == "" {
		dsn = s.url
	}
	name := uniqueName("tenant")
	writeSecret(ctx, namespace, name, "url", dsn)
	writeSecret(ctx, namespace, name+"-key", "key", s.key)
	tenant := *s
	tenant.own = &v1alpha1.WorkerFunctionSpec{
		Endpoint:          &v1alpha1.Endpoint{URL: s.server.Addresses().FunctionsURL()},
		AuthSecretRef:     &v1alpha1.SecretKeyRef{Name: name + "-key", Key: "key"},
		DatabaseSecretRef: &v1alpha1.SecretKeyRef{Name: name, Key: "url"},
	}
	return &tenant
}

// writeSecret makes a Secret with one key, or gives an existing one this content. One that it made goes when the spec
// ends.
func writeSecret(ctx context.Context, namespace, name, key, value string) {
	GinkgoHelper()
	if putSecret(ctx, namespace, name, key, value) {
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, secretNamed(namespace, name)))).To(Succeed())
		})
	}
}

// putSecret is writeSecret for cleanups; it reports whether it made the Secret.
func putSecret(ctx context.Context, namespace, name, key, value string) (made bool) {
	GinkgoHelper()
	secret := secretNamed(namespace, name)
	err := k8s.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	secret.Data = map[string][]byte{key: []byte(value)}
	if err == nil {
		Expect(k8s.Update(ctx, secret)).To(Succeed())
		return false
	}
	Expect(k8s.Create(ctx, secret)).To(Succeed())
	return true
}

func secretNamed(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func deleteSecret(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(k8s.Delete(ctx, secretNamed(namespace, name))).To(Succeed())
}

// exec runs a statement as a person with psql would.
func (s *site) exec(ctx context.Context, sql string, args ...any) {
	GinkgoHelper()
	_, err := s.pool.Exec(ctx, sql, args...)
	Expect(err).NotTo(HaveOccurred())
}

// text returns the only value of a query, as text.
func (s *site) text(ctx context.Context, sql string, args ...any) string {
	GinkgoHelper()
	var value *string
	Expect(s.pool.QueryRow(ctx, "SELECT ("+sql+")::text", args...).Scan(&value)).To(Succeed())
	if value == nil {
		return ""
	}
	return *value
}
