package credentials

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/kubetest"
)

const (
	patience = 60 * time.Second
	operator = "operator" // the operator's namespace
	tenant   = "tenant"
)

// environment is the API server of this test binary; TestMain sets it.
var environment *kubetest.Env

// The package starts no goroutine, so there is no check for leaks.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	env, err := kubetest.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	environment = env
	code := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// rig has what a Resolver reads from: the API server, and a cache of metadata.
type rig struct {
	live     *counting
	metadata client.Reader
	admin    client.Client
}

// counting counts live reads and can fail them.
type counting struct {
	client.Reader
	mu    sync.Mutex
	reads int
	fail  error
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.mu.Lock()
	c.reads++
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		return fail
	}
	return c.Reader.Get(ctx, key, obj, opts...)
}

func (c *counting) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func start(t *testing.T) *rig {
	t.Helper()
	g := NewWithT(t)
	httpClient, err := rest.HTTPClientFor(environment.Config)
	g.Expect(err).NotTo(HaveOccurred())
	admin, err := client.New(environment.Config, client.Options{HTTPClient: httpClient})
	g.Expect(err).NotTo(HaveOccurred())
	metadata, err := cache.New(environment.Config, cache.Options{HTTPClient: httpClient})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = metadata.Start(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	for _, namespace := range []string{operator, tenant} {
		err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		g.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	}
	return &rig{live: &counting{Reader: admin}, metadata: metadata, admin: admin}
}

// secret writes a Secret and waits until the cache has it.
func (r *rig) secret(t *testing.T, namespace, name string, data map[string]string) {
	t.Helper()
	g := NewWithT(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
	if err := r.admin.Create(t.Context(), secret); err != nil {
		old := &corev1.Secret{}
		g.Expect(r.admin.Get(t.Context(), client.ObjectKeyFromObject(secret), old)).To(Succeed())
		old.Data, old.StringData = nil, data
		g.Expect(r.admin.Update(t.Context(), old)).To(Succeed())
		secret = old
	}
	g.Eventually(func() string {
		seen := &metav1.PartialObjectMetadata{}
		seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		_ = r.metadata.Get(t.Context(), client.ObjectKeyFromObject(secret), seen)
		return seen.ResourceVersion
	}).WithTimeout(patience).WithPolling(5 * time.Millisecond).Should(Equal(secret.ResourceVersion))
}
