package statuswriter

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/kubetest"
)

const patience = 60 * time.Second

// environment is the API server of this test binary; TestMain sets it.
var environment *kubetest.Env

// suite runs the tests between the start and the stop of the API server, so
// that the check for leaks comes after both.
type suite struct{ *testing.M }

func (s suite) Run() int {
	env, err := kubetest.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	environment = env
	code := s.M.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{m}) }

// wire counts the status writes that go to the API server and can hold or fail
// them.
type wire struct {
	next http.RoundTripper

	mu      sync.Mutex
	patches int
	flying  int
	most    int
	before  func(n int) error // called with the number of each write, outside the lock
	after   func(n int) error
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch {
		return w.next.RoundTrip(r)
	}
	w.mu.Lock()
	w.patches++
	w.flying++
	w.most = max(w.most, w.flying)
	n, before, after := w.patches, w.before, w.after
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.flying--
		w.mu.Unlock()
	}()
	if before != nil {
		if err := before(n); err != nil {
			return nil, err
		}
	}
	resp, err := w.next.RoundTrip(r)
	if err == nil && after != nil {
		if err := after(n); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
	}
	return resp, err
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.patches
}

// rig is a started Writer on the real API server.
type rig struct {
	*Writer
	wire   *wire
	client client.Client
	stop   func() // ends the Writer and waits
}

// start starts a Writer that writes through w.
func start(t *testing.T, w *wire, o Options, change ...func(*Writer)) *rig {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	config := rest.CopyConfig(environment.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { w.next = next; return w })
	httpClient, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Scheme: scheme, HTTPClient: httpClient})
	g.Expect(err).NotTo(HaveOccurred())

	writer := New(c, o)
	for _, c := range change {
		c(writer)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- writer.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			g.Expect(err).NotTo(HaveOccurred())
		case <-time.After(patience):
			t.Error("Start did not return")
		}
	})
	t.Cleanup(stop)
	return &rig{Writer: writer, wire: w, client: c, stop: stop}
}

// create makes an object in the API server and returns it as a cache would.
func (r *rig) create(t *testing.T, name string) *v1alpha1.WorkerFunction {
	t.Helper()
	obj := &v1alpha1.WorkerFunction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	NewWithT(t).Expect(r.client.Create(t.Context(), obj)).To(Succeed())
	return obj
}

// read returns the object as the API server has it.
func (r *rig) read(t *testing.T, obj *v1alpha1.WorkerFunction) *v1alpha1.WorkerFunction {
	t.Helper()
	fresh := &v1alpha1.WorkerFunction{}
	NewWithT(t).Expect(r.client.Get(t.Context(), client.ObjectKeyFromObject(obj), fresh)).To(Succeed())
	return fresh
}

// within waits until the API server has a status that matches.
func (r *rig) within(t *testing.T, obj *v1alpha1.WorkerFunction) AsyncAssertion {
	return NewWithT(t).Eventually(func() v1alpha1.WorkerFunctionStatus { return r.read(t, obj).Status }).
		WithTimeout(patience).WithPolling(5 * time.Millisecond)
}

// idle waits until nothing is queued or in flight.
func (r *rig) idle(t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, o := range r.objects {
			if o.queued != nil || o.flying != nil {
				return false
			}
		}
		return true
	}).WithTimeout(patience).WithPolling(time.Millisecond).Should(BeTrue())
}

// ready is a status with a Ready condition.
func ready(status metav1.ConditionStatus, reason string) v1alpha1.WorkerFunctionStatus {
	return v1alpha1.WorkerFunctionStatus{
		Phase:      v1alpha1.PhaseReady,
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "m"}},
	}
}

// reason picks the Ready condition's reason.
func reason(s v1alpha1.WorkerFunctionStatus) string {
	if len(s.Conditions) == 0 {
		return ""
	}
	return s.Conditions[0].Reason
}
