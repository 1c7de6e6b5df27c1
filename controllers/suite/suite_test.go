package suite_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers"
	"github.com/pgflow-operator/pgflow-operator/controllers/credentials"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/kubetest"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
)

const (
	// operatorNamespace is where the operator, its Secrets and most objects are; allowedNamespace may use the operator's
	// set too, strangersNamespace may not.
	operatorNamespace  = "operator"
	allowedNamespace   = "allowed"
	strangersNamespace = "strangers"

	databaseSecret, databaseKey = "set-database", "url"
	authSecret, authKey         = "set-auth", "key"

	// unavailableAfter replaces the 30 s of the product.
	unavailableAfter = 3 * time.Second

	// patience bounds every wait. On an idle machine nothing takes a tenth of it.
	patience = 30 * time.Second
)

// What the specs share. BeforeSuite sets it.
var (
	cluster  *pgtest.Cluster
	k8s      client.WithWatch // an administrator's
	history  *recorder
	cached   client.Reader // what the operator keeps of the API server
	logs     = &logBook{}
	now      = &movableClock{}
	standard *site // the database and stand-in of the operator's set
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Ginkgo waits for signals until the process ends.
		goleak.IgnoreAnyFunction("github.com/onsi/ginkgo/v2/internal/interrupt_handler.(*InterruptHandler).registerForInterrupts.func2"),
		// An informer of controller-runtime that is stopped with an event in hand leaves its filter behind.
		goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))
}

func TestOperator(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(5 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	ctrl.SetLogger(logs.logger())
	RunSpecs(t, "Operator")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var ready sync.WaitGroup
	var postgresErr error
	ready.Go(func() { cluster, postgresErr = pgtest.Start() })
	kube, err := kubetest.Start()
	ready.Wait()
	if postgresErr == nil {
		DeferCleanup(cluster.Stop)
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(kube.Stop)
	Expect(postgresErr).NotTo(HaveOccurred())

	connectAdministrator(kube.Config)
	history = record()
	for _, name := range []string{operatorNamespace, allowedNamespace, strangersNamespace} {
		Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	standard = newSite(ctx)
	writeSecret(ctx, operatorNamespace, databaseSecret, databaseKey, standard.url)
	writeSecret(ctx, operatorNamespace, authSecret, authKey, standard.key)

	config, err := kube.OperatorConfig(ctx, operatorNamespace)
	Expect(err).NotTo(HaveOccurred())
	startOperator(ctx, config, credentials.Set{
		Namespace:         operatorNamespace,
		AllowedNamespaces: []string{operatorNamespace, allowedNamespace},
		Database:          &credentials.SecretKey{Name: databaseSecret, Key: databaseKey},
		Auth:              &credentials.SecretKey{Name: authSecret, Key: authKey},
		FunctionsURL:      standard.endpoint(),
	})
}, NodeTimeout(3*time.Minute))

var _ = AfterSuite(func(ctx SpecContext) {
	for _, secret := range secrets.all() {
		Expect(strings.Contains(logs.text(), secret)).To(BeFalse(), "a credential is in the log")
		Expect(strings.Contains(allEvents(ctx), secret)).To(BeFalse(), "a credential is in an event")
	}
})

var _ = JustAfterEach(func() {
	if CurrentSpecReport().Failed() {
		AddReportEntry("history", history.tell())
		AddReportEntry("log", logs.tail(15))
	}
	Expect(history.takeViolations()).To(BeEmpty(), "the invariants of statuses")
})

func connectAdministrator(config *rest.Config) {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, -1
	httpClient, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(httpClient.CloseIdleConnections)
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	k8s, err = client.NewWithWatch(config, client.Options{Scheme: scheme, HTTPClient: httpClient})
	Expect(err).NotTo(HaveOccurred())
}

// startOperator runs what main runs, until the suite ends.
func startOperator(ctx context.Context, config *rest.Config, set credentials.Set) {
	GinkgoHelper()
	mgr, err := controllers.NewManager(config, ctrl.Options{
		Logger:                        logs.logger(),
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "pgflow-operator.workers.pgflow.dev",
		LeaderElectionNamespace:       operatorNamespace,
		LeaderElectionReleaseOnCancel: true,
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(controllers.Setup(ctx, mgr, controllers.Options{UnavailableAfter: unavailableAfter, Clock: now}, set)).To(Succeed())

	cached = mgr.GetCache()
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()))
		mgr.GetHTTPClient().CloseIdleConnections()
	})
	Eventually(mgr.Elected()).Should(BeClosed())
}

// movableClock is the real clock, some time ahead.
type movableClock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *movableClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *movableClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// move sets the clock ahead for the rest of the spec.
func (c *movableClock) move(by time.Duration) {
	set := func(ahead time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ahead = ahead
	}
	set(by)
	DeferCleanup(func() { set(0) })
}

// endpoint is where the stand-in's functions are.
func (s *site) endpoint() *url.URL {
	GinkgoHelper()
	return parsed(s.server.Addresses().FunctionsURL())
}
