package suite_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// function is one function of a site, and the object for it.
type function struct {
	*site
	name string
	key  types.NamespacedName // of the object
	obj  *v1alpha1.WorkerFunction
}

type (
	runtimeConfig = edgeruntime.FunctionConfig
	spec          = v1alpha1.WorkerFunctionSpec
)

// ms is a duration in the stand-in's configuration.
func ms(n int) edgeruntime.Millis { return edgeruntime.Millis(time.Duration(n) * time.Millisecond) }

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// deploy puts a function behind the site's endpoint; it boots at once and lives until something ends it, unless change
// says otherwise. Nothing knows of it yet.
func (s *site) deploy(ctx context.Context, change func(*runtimeConfig)) *function {
	GinkgoHelper()
	config := edgeruntime.DefaultFunction()
	config.WallClock = 0
	config.Heartbeat = ms(200)
	if change != nil {
		change(&config)
	}
	f := &function{site: s, name: uniqueName("f")}
	f.key = types.NamespacedName{Namespace: operatorNamespace, Name: f.name}
	Expect(s.edge.Configure(ctx, f.name, config)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { _ = s.edge.Remove(ctx, f.name) }) // the site may be gone first
	return f
}

// insert registers the function with the values that the columns default to.
func (f *function) insert(ctx context.Context) *function {
	GinkgoHelper()
	f.exec(ctx, `INSERT INTO pgflow.worker_functions (function_name) VALUES ($1)`, f.name)
	return f
}

// object returns an object for the function, with its spec as change leaves it.
func (f *function) object(change func(*spec)) *v1alpha1.WorkerFunction {
	obj := &v1alpha1.WorkerFunction{ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: f.key.Name}}
	if f.own != nil {
		obj.Spec = *f.own.DeepCopy()
	}
	if f.key.Name != f.name {
		obj.Spec.FunctionName = f.name
	}
	if change != nil {
		change(&obj.Spec)
	}
	return obj
}

// apply makes the object. When the spec ends it goes, whatever state it is in.
func (f *function) apply(ctx context.Context, change func(*spec)) *function {
	GinkgoHelper()
	f.obj = f.object(change)
	Expect(k8s.Create(ctx, f.obj)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, f.obj))).To(Succeed())
		noFinalizers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		Expect(client.IgnoreNotFound(k8s.Patch(ctx, f.obj.DeepCopy(), noFinalizers))).To(Succeed())
		Eventually(func() bool { return history.isGone(f.key) }).Should(BeTrue())
	})
	return f
}

// twin is another object for the same function.
func (f *function) twin(namespace string) *function {
	twin := *f
	twin.obj, twin.key = nil, types.NamespacedName{Namespace: namespace, Name: uniqueName("twin")}
	return &twin
}

// change changes the object's spec as a person would.
func (f *function) change(ctx context.Context, change func(*spec)) {
	GinkgoHelper()
	before := &v1alpha1.WorkerFunction{}
	Expect(k8s.Get(ctx, f.key, before)).To(Succeed())
	after := before.DeepCopy()
	change(&after.Spec)
	Expect(k8s.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
	f.obj = after
}

func (f *function) delete(ctx context.Context) {
	GinkgoHelper()
	Expect(k8s.Delete(ctx, f.obj)).To(Succeed())
}

func (f *function) isGone() bool { return history.isGone(f.key) }

// state is a condition as specs compare it.
type state struct {
	Status metav1.ConditionStatus
	Reason string
}

func isTrue(reason string) state    { return state{metav1.ConditionTrue, reason} }
func isFalse(reason string) state   { return state{metav1.ConditionFalse, reason} }
func isUnknown(reason string) state { return state{metav1.ConditionUnknown, reason} }

// absent is a condition that is not there.
var absent state

// status returns the object's newest status.
func (f *function) status() v1alpha1.WorkerFunctionStatus { return history.latest(f.key).Status }

// condition returns one of the object's conditions, about its newest generation.
func (f *function) condition(kind string) state {
	c := meta.FindStatusCondition(f.status().Conditions, kind)
	if c == nil || f.obj != nil && c.ObservedGeneration < f.obj.Generation {
		return absent
	}
	return state{c.Status, c.Reason}
}

// message returns a condition's message.
func (f *function) message(kind string) string {
	if c := meta.FindStatusCondition(f.status().Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

func (f *function) ready() state { return f.condition(v1alpha1.ConditionReady) }

// becomes waits until Ready is as wanted.
func (f *function) becomes(want state) {
	GinkgoHelper()
	Eventually(f.ready).Should(Equal(want), func() string { return tellStatus(history.latest(f.key)) })
}

// writes returns how many statuses were written to the object.
func (f *function) writes() int { return len(history.writes(f.key)) }

// row returns the function's whole row as JSON; empty: there is none.
func (f *function) row(ctx context.Context) string {
	GinkgoHelper()
	return f.text(ctx, `SELECT to_jsonb(f) FROM pgflow.worker_functions f WHERE function_name = $1`, f.name)
}

// column returns a column of the function's row.
func (f *function) column(ctx context.Context, name string) string {
	GinkgoHelper()
	return f.text(ctx, `SELECT to_jsonb(f) ->> $2 FROM pgflow.worker_functions f WHERE function_name = $1`, f.name, name)
}

// set writes a column of the function's row as a person with psql would.
func (f *function) set(ctx context.Context, assignment string) {
	GinkgoHelper()
	f.exec(ctx, `UPDATE pgflow.worker_functions SET `+assignment+` WHERE function_name = $1`, f.name)
}

// age shifts everything that is stored of the function's workers and invocations into the past.
func (f *function) age(ctx context.Context, by string) {
	GinkgoHelper()
	f.exec(ctx, `UPDATE pgflow.workers SET started_at = started_at - $2::interval WHERE function_name = $1`, f.name, by)
	f.exec(ctx, `UPDATE pgflow.worker_functions SET last_invoked_at = last_invoked_at - $2::interval WHERE function_name = $1`, f.name, by)
}

// requests returns what arrived at the function's endpoint.
func (f *function) requests(ctx context.Context) []edgeruntime.RequestRecord {
	GinkgoHelper()
	records, err := f.edge.Requests(ctx, f.name, 0)
	Expect(err).NotTo(HaveOccurred())
	return records
}

// arrived is how many requests arrived, for Eventually.
func (f *function) arrived(ctx context.Context) func() int {
	return func() int { return len(f.requests(ctx)) }
}

// liveWorkers counts the loops that run in the stand-in.
func (f *function) liveWorkers(ctx context.Context) int {
	GinkgoHelper()
	state, err := f.edge.State(ctx, f.name)
	Expect(err).NotTo(HaveOccurred())
	return len(state.RunningWorkers())
}

// stop ends the function's runtimes the ordinary way.
func (f *function) stop(ctx context.Context) {
	GinkgoHelper()
	_, err := f.edge.Stop(ctx, f.name)
	Expect(err).NotTo(HaveOccurred())
}

// reconfigure changes fields of the stand-in's configuration, by their JSON names.
func (f *function) reconfigure(ctx context.Context, fields map[string]any) {
	GinkgoHelper()
	Expect(f.edge.Patch(ctx, f.name, fields)).To(Succeed())
}

// version returns the object's resource version.
func (f *function) version(ctx context.Context) string {
	GinkgoHelper()
	obj := &v1alpha1.WorkerFunction{}
	Expect(k8s.Get(ctx, f.key, obj)).To(Succeed())
	return obj.ResourceVersion
}

// lastBeat returns the newest heartbeat.
func (f *function) lastBeat(ctx context.Context) string {
	GinkgoHelper()
	return f.text(ctx, `SELECT max(last_heartbeat_at) FROM pgflow.workers WHERE function_name = $1`, f.name)
}
