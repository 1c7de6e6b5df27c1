package controllers

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers/credentials"
)

const (
	// indexFunction finds objects by the function they stand for, indexSecret by the Secrets they depend on.
	indexFunction = "functionName"
	indexSecret   = "secret"

	// concurrentReconciles is how many objects are reconciled at once. Each waits for a database at most, and only a few
	// for the same one, so that several may be in trouble before others notice.
	concurrentReconciles = 48
	// reconcileDeadline bounds one reconcile: a read of each of its Secrets, a finalizer and a call of the database.
	reconcileDeadline = 30 * time.Second
)

// Waker has objects reconciled that something other than the API server has news of. Its methods may be called
// concurrently and never block.
type Waker struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

// Object has an object reconciled. Before the controller has started it does nothing: it reconciles all when it does.
func (w *Waker) Object(object types.NamespacedName) {
	if queue := w.queue.Load(); queue != nil {
		(*queue).Add(reconcile.Request{NamespacedName: object})
	}
}

// Start makes the Waker a source of the controller.
func (w *Waker) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	w.queue.Store(&queue)
	return nil
}

// SetupWithManager registers the reconciler, its indexes and its watches.
func (r *WorkerFunctionReconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, set credentials.Set) error {
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &workersv1alpha1.WorkerFunction{}, indexFunction, func(o client.Object) []string {
		return []string{o.(*workersv1alpha1.WorkerFunction).FunctionName()}
	}); err != nil {
		return err
	}
	if err := indexer.IndexField(ctx, &workersv1alpha1.WorkerFunction{}, indexSecret, func(o client.Object) []string {
		var names []string
		for _, secret := range credentials.SecretsOf(o.(*workersv1alpha1.WorkerFunction), set) {
			names = append(names, secret.String())
		}
		return names
	}); err != nil {
		return err
	}

	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).
		Named("workerfunction").
		For(&workersv1alpha1.WorkerFunction{}, changed).
		Watches(&workersv1alpha1.WorkerFunction{}, handler.EnqueueRequestsFromMapFunc(r.othersOfFunction), changed).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.objectsOfSecret),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(r.Wake).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrentReconciles,
			ReconciliationTimeout:   reconcileDeadline,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				200*time.Millisecond, time.Minute),
		}).
		Complete(r)
}

// othersOfFunction returns the other objects that may stand for the same registration: who acts may have changed.
func (r *WorkerFunctionReconciler) othersOfFunction(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, o.GetUID(), client.MatchingFields{indexFunction: o.(*workersv1alpha1.WorkerFunction).FunctionName()})
}

// objectsOfSecret returns the objects that depend on a Secret, and those that may stand for the same registrations: a
// Secret can lead an object to another database, and who acts in either may have changed.
func (r *WorkerFunctionReconciler) objectsOfSecret(ctx context.Context, o client.Object) []reconcile.Request {
	var list workersv1alpha1.WorkerFunctionList
	if err := r.Client.List(ctx, &list, client.MatchingFields{indexSecret: client.ObjectKeyFromObject(o).String()}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list WorkerFunctions in the cache")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, r.requests(ctx, "", client.MatchingFields{indexFunction: list.Items[i].FunctionName()})...)
	}
	return requests // the handler asks for each once
}

// requests returns the objects that match, but for one.
func (r *WorkerFunctionReconciler) requests(ctx context.Context, except types.UID, match client.MatchingFields) []reconcile.Request {
	var list workersv1alpha1.WorkerFunctionList
	if err := r.Client.List(ctx, &list, match, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list WorkerFunctions in the cache")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].UID != except {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
