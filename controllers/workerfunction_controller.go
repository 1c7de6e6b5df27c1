package controllers

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers/credentials"
	"github.com/pgflow-operator/pgflow-operator/controllers/decision"
	"github.com/pgflow-operator/pgflow-operator/controllers/delivery"
	"github.com/pgflow-operator/pgflow-operator/controllers/observer"
	"github.com/pgflow-operator/pgflow-operator/controllers/statuswriter"
)

// Finalizer keeps a WorkerFunction with deletionPolicy Disable until its registration has been disabled.
const Finalizer = "workers.pgflow.dev/disable"

// WorkerFunctionReconciler reconciles WorkerFunctions. Its fields are set before SetupWithManager and not changed after.
// It is safe for concurrent reconciles of different objects.
type WorkerFunctionReconciler struct {
	// Client reads WorkerFunctions from the cache and writes finalizers.
	Client client.Client
	// Resolver finds an object's database, endpoint and key.
	Resolver *credentials.Resolver
	// Databases observes the databases in use.
	Databases *observer.Registry
	// Dispatcher sends invocations.
	Dispatcher *delivery.Dispatcher
	// Statuses writes statuses.
	Statuses *statuswriter.Writer
	// Events takes what a person should know.
	Events events.EventRecorder
	// Clock ends finalizers; it decides nothing of the handshake.
	Clock clock.PassiveClock
	// Wake has an object reconciled; the observer and the dispatcher call it.
	Wake *Waker

	// sent is what is and was delivered for an object since it stands for its present registration.
	sent sync.Map // types.NamespacedName -> *sending

	stalls stalls
}

// target is what an object stands for and how it is reached.
type target struct {
	database *observer.Database
	function string
	credentials.Resolved
}

// Reconcile brings one WorkerFunction forward by at most one step.
func (r *WorkerFunctionReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := &workersv1alpha1.WorkerFunction{}
	if err := r.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	if !obj.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, obj)
	}

	o := decision.Observed{Generation: obj.Generation, Spec: obj.Spec, Previous: r.Statuses.Latest(obj)}
	t, done, err := r.observe(ctx, obj, &o)
	if err != nil {
		return ctrl.Result{}, err
	}
	if done != nil {
		return *done, nil
	}
	if err := r.reconcileFinalizer(ctx, obj, o); err != nil {
		return retryConflict(err)
	}

	acted := r.act(ctx, obj, t, decision.Decide(o), &o)
	if !acted.changed {
		r.report(ctx, obj, o)
	}
	return ctrl.Result{RequeueAfter: acted.again}, nil
}

// report shows what was observed, if that says something new.
func (r *WorkerFunctionReconciler) report(ctx context.Context, obj *workersv1alpha1.WorkerFunction, o decision.Observed) {
	if o.Problem != nil { // whose text can be the database's, of any length
		o.Problem.Message = cut(o.Problem.Message)
	}
	next := decision.Status(o)
	r.logStall(ctx, client.ObjectKeyFromObject(obj), next)
	if !decision.WorthWriting(o.Previous, next) {
		return
	}
	r.recordEvents(obj, o.Previous, next)
	r.Statuses.Submit(obj, next)
	ctrl.LoggerFrom(ctx).V(1).Info("Status changes", "phase", next.Phase)
}

// forget ends everything that is kept for an object.
func (r *WorkerFunctionReconciler) forget(object types.NamespacedName) {
	r.abandon(object)
	r.Databases.Release(object)
	r.Resolver.Forget(object)
	r.Statuses.Forget(object)
	r.stalls.set(object, "")
}

// cut bounds a message that others had a part in.
func cut(message string) string {
	const limit = 1024
	n := 0
	for i := range message {
		if n++; n > limit {
			return message[:i]
		}
	}
	return message
}
