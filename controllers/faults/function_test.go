package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// function is one function of a world: deployed in the stand-in, and with an object.
type function struct {
	*world
	t      testing.TB
	g      Gomega
	name   string
	legacy bool
}

// spec is what a test says about a function's object and configuration beyond the defaults: a debounce of 1 s, the other
// timeouts long enough for a slow machine, heartbeats twice a second, and a runtime that lives for ever.
type spec struct {
	required       bool
	pendingTimeout time.Duration // default 60 s
	heartbeat      time.Duration // timeout; default 20 s
	runtime        func(*edgeruntime.FunctionConfig)
}

func legacy(c *edgeruntime.FunctionConfig) { c.Kind = edgeruntime.Legacy015 }

// function deploys a function and applies its object.
func (w *world) function(t testing.TB, name string, s spec) *function {
	t.Helper()
	f := w.deploy(t, name, s)
	f.apply(s)
	return f
}

// deploy makes the function known to the stand-in alone.
func (w *world) deploy(t testing.TB, name string, s spec) *function {
	t.Helper()
	config := edgeruntime.DefaultFunction()
	config.WallClock, config.Heartbeat = 0, edgeruntime.Millis(500*time.Millisecond)
	if s.runtime != nil {
		s.runtime(&config)
	}
	f := &function{world: w, t: t, g: NewWithT(t), name: name, legacy: config.Kind != edgeruntime.Participating}
	f.g.Expect(w.edge.Configure(name, config)).To(Succeed())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.functions = append(w.functions, f)
	return f
}

// apply creates the function's object.
func (f *function) apply(s spec) {
	f.t.Helper()
	enabled := true
	object := &workersv1alpha1.WorkerFunction{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.name}}
	object.Spec.DeletionPolicy = workersv1alpha1.DeletionPolicyOrphan // nothing is left to do at the end
	object.Spec.Enabled = &enabled
	object.Spec.Debounce = &metav1.Duration{Duration: time.Second}
	object.Spec.PendingTimeout = &metav1.Duration{Duration: max(s.pendingTimeout, 0)}
	if s.pendingTimeout == 0 {
		object.Spec.PendingTimeout.Duration = time.Minute
	}
	object.Spec.HeartbeatTimeout = &metav1.Duration{Duration: s.heartbeat}
	if s.heartbeat == 0 {
		object.Spec.HeartbeatTimeout.Duration = 20 * time.Second
	}
	if s.required {
		required := workersv1alpha1.HandshakeRequired
		object.Spec.Handshake = &required
	}
	f.g.Expect(shared.admin.Create(f.t.Context(), object)).To(Succeed())
}

// registration is the function's row.
type registration struct {
	Phase        string
	Invocation   uuid.UUID // uuid.Nil: none
	ExpiresAt    time.Time
	FailedStarts int
	LastID       uuid.UUID
	Outcome      string
	Reason       string
	Ready        uuid.UUID
}

func (f *function) registration() registration {
	f.t.Helper()
	rows, err := f.pool.Query(f.t.Context(), `SELECT phase, coalesce(invocation_id, uuid_nil), coalesce(invocation_expires_at, 'epoch'),
		failed_starts, coalesce(last_invocation_id, uuid_nil), coalesce(last_outcome, ''), coalesce(last_outcome_reason, ''),
		coalesce(ready_worker_id, uuid_nil)
		FROM pgflow.worker_function_states, (VALUES ('00000000-0000-0000-0000-000000000000'::uuid)) AS n (uuid_nil)
		WHERE function_name = $1`, f.name)
	f.g.Expect(err).NotTo(HaveOccurred())
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[registration])
	f.g.Expect(err).NotTo(HaveOccurred())
	if len(found) == 0 {
		return registration{}
	}
	return found[0]
}

// admitted counts the workers that the function ever had.
func (f *function) admitted() int {
	f.t.Helper()
	var count int
	f.g.Expect(f.pool.QueryRow(f.t.Context(), `SELECT count(*) FROM pgflow.workers WHERE function_name = $1`, f.name).
		Scan(&count)).To(Succeed())
	return count
}

// sent returns the ids of the operators' requests, in the order of their arrival.
func (f *function) sent() []string {
	f.t.Helper()
	var ids []string
	for _, r := range f.requests(f.t.Context(), f.name) {
		ids = append(ids, r.InvocationID)
	}
	return ids
}

func (f *function) state() edgeruntime.FunctionState {
	f.t.Helper()
	state, err := f.runtime.State(f.t.Context(), f.name)
	f.g.Expect(err).NotTo(HaveOccurred())
	return state
}

func (f *function) patch(fields map[string]any) {
	f.t.Helper()
	f.g.Expect(f.runtime.Patch(f.t.Context(), f.name, fields)).To(Succeed())
}

func (f *function) release() {
	f.t.Helper()
	f.g.Expect(f.runtime.Release(f.t.Context(), f.name)).To(Succeed())
}

// stop ends the function's runtimes after their beforeunload.
func (f *function) stop() {
	f.t.Helper()
	_, err := f.runtime.Stop(f.t.Context(), f.name)
	f.g.Expect(err).NotTo(HaveOccurred())
}

// killRuntimes ends them without.
func (f *function) killRuntimes() {
	f.t.Helper()
	_, err := f.runtime.Kill(f.t.Context(), f.name)
	f.g.Expect(err).NotTo(HaveOccurred())
}

// eventually polls until the condition holds.
func (f *function) eventually(condition any) AsyncAssertion {
	return f.g.Eventually(condition).WithTimeout(within).WithPolling(often)
}

// pending waits for a pending invocation and returns it.
func (f *function) pending() registration {
	f.t.Helper()
	var r registration
	f.eventually(func() string { r = f.registration(); return r.Phase }).Should(Equal("pending"), f.name)
	return r
}

// arrived waits until a request with the id has reached the gateway.
func (f *function) arrived(id uuid.UUID) {
	f.t.Helper()
	f.eventually(f.sent).Should(ContainElement(id.String()), f.name)
}

// object is the function's object as the API server has it.
func (f *function) object() *workersv1alpha1.WorkerFunction {
	f.t.Helper()
	object := &workersv1alpha1.WorkerFunction{}
	f.g.Expect(shared.admin.Get(f.t.Context(), types.NamespacedName{Namespace: f.namespace, Name: f.name}, object)).To(Succeed())
	return object
}

// condition of the object, in the words that a test compares: status and reason.
func (f *function) condition(conditionType string) string {
	f.t.Helper()
	c := meta.FindStatusCondition(f.object().Status.Conditions, conditionType)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// served says what is wrong with a function that should have one worker, whose loop runs, in the database and in the
// stand-in.
func (f *function) served() error {
	row := f.registration()
	if row.Phase != "ready" || row.Invocation != uuid.Nil {
		return fmt.Errorf("%s is %+v", f.name, row)
	}
	if running := f.state().RunningWorkers(); len(running) != 1 || running[0].ID != row.Ready {
		return fmt.Errorf("%s: ready worker %s, in truth %+v", f.name, row.Ready, running)
	}
	return nil
}

// shown says what is wrong with the status of a function that is served.
func (f *function) shown() error {
	ready := f.registration().Ready
	object := f.object()
	c := meta.FindStatusCondition(object.Status.Conditions, workersv1alpha1.ConditionReady)
	switch {
	case c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != object.Generation:
		return fmt.Errorf("%s: Ready is %+v", f.name, c)
	case object.Status.Worker == nil || object.Status.Worker.ID != ready.String():
		return fmt.Errorf("%s: worker %s is shown as %+v (%s %s)", f.name, ready, object.Status.Worker, c.Reason, c.Message)
	case object.Status.Phase != workersv1alpha1.PhaseReady || object.Status.Invocation != nil:
		return fmt.Errorf("%s: phase %s, invocation %+v", f.name, object.Status.Phase, object.Status.Invocation)
	case len(object.Status.Conditions) != 2:
		return fmt.Errorf("%s: more conditions than Ready and Registered: %+v", f.name, object.Status.Conditions)
	}
	return nil
}

// ready waits until the function is served and its object says so, and returns the worker.
func (f *function) ready() uuid.UUID {
	f.t.Helper()
	f.eventually(f.served).Should(Succeed())
	f.eventually(f.shown).Should(Succeed())
	return f.registration().Ready
}

// replaced waits until the function is served by another worker than before.
func (f *function) replaced(before uuid.UUID) {
	f.t.Helper()
	f.eventually(func() error {
		if f.registration().Ready == before {
			return fmt.Errorf("%s still has worker %s", f.name, before)
		}
		return f.served()
	}).Should(Succeed())
}

// post sends a request as something that is not an operator, straight to the gateway. The answer's code comes when there
// is one; 0: there was none.
func (f *function) post(id string) <-chan int {
	answered := make(chan int, 1)
	go func() {
		ctx, cancel := context.WithTimeout(f.t.Context(), within)
		defer cancel()
		rq, err := http.NewRequestWithContext(ctx, http.MethodPost, f.edge.Addresses().Gateway+"/"+f.name, strings.NewReader("{}"))
		if err != nil {
			answered <- 0
			return
		}
		rq.Header.Set("Authorization", "Bearer "+f.key)
		rq.Header.Set("X-Pgflow-Invocation-Id", id)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(rq)
		if err != nil {
			answered <- 0
			return
		}
		_ = response.Body.Close()
		answered <- response.StatusCode
	}()
	return answered
}
