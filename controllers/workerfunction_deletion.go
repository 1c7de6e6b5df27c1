package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers/decision"
)

const (
	// deletionPatience is how long the deletion of an object waits for its database or Secret.
	deletionPatience = 2 * time.Minute
	// deletionRetry is how often it is tried meanwhile.
	deletionRetry = 5 * time.Second
)

// reconcileFinalizer puts the finalizer on, before the first side effect, where deleting the object is to disable its
// registration, and takes it off where it is not. Nothing else of the object is changed.
func (r *WorkerFunctionReconciler) reconcileFinalizer(ctx context.Context, obj *workersv1alpha1.WorkerFunction, o decision.Observed) error {
	if obj.Spec.DeletionPolicy == workersv1alpha1.DeletionPolicyOrphan {
		return r.patchFinalizer(ctx, obj, controllerutil.RemoveFinalizer)
	}
	if o.Problem != nil || obj.Spec.Suspend || !o.Read {
		return nil // no side effect yet
	}
	return r.patchFinalizer(ctx, obj, controllerutil.AddFinalizer)
}

// patchFinalizer changes the finalizers as change does, if that is a change.
func (r *WorkerFunctionReconciler) patchFinalizer(ctx context.Context, obj *workersv1alpha1.WorkerFunction, change func(client.Object, string) bool) error {
	before := obj.DeepCopy()
	if !change(obj, Finalizer) {
		return nil
	}
	// A merge patch replaces the whole list, so it must not be made from an old one.
	return r.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// retryConflict has a lost write tried again at once, without calling it an error.
func retryConflict(err error) (ctrl.Result, error) {
	switch {
	case err == nil:
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: 10 * time.Millisecond}, nil // by then the cache has the newer object
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// reconcileDelete disables the registration of a deleted object, if that is its policy, and lets the object go. Without
// database or Secret it gives up after deletionPatience.
func (r *WorkerFunctionReconciler) reconcileDelete(ctx context.Context, obj *workersv1alpha1.WorkerFunction) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(obj, Finalizer) {
		r.forget(client.ObjectKeyFromObject(obj))
		return ctrl.Result{}, nil
	}
	r.abandon(client.ObjectKeyFromObject(obj)) // it starts nothing any more, however long the rest takes
	// A suspended object is not acted on, not even at its end, as with Flux.
	if obj.Spec.DeletionPolicy != workersv1alpha1.DeletionPolicyOrphan && !obj.Spec.Suspend {
		if err := r.disable(ctx, obj); err != nil {
			left := deletionPatience - r.Clock.Since(obj.DeletionTimestamp.Time)
			if left > 0 {
				ctrl.LoggerFrom(ctx).V(1).Info("The registration cannot be disabled yet", "error", err.Error(), "givingUpIn", left.String())
				return ctrl.Result{RequeueAfter: min(left, deletionRetry)}, nil
			}
			r.Events.Eventf(obj, nil, corev1.EventTypeWarning, "NotDisabled", "Delete",
				"The registration of function %q was left as it is, because it could not be disabled for %v: %s",
				obj.FunctionName(), deletionPatience, excerpt(err.Error()))
		}
	}
	// Before an heir takes over, which may send with the same dispatcher.
	r.forget(client.ObjectKeyFromObject(obj))
	return retryConflict(r.patchFinalizer(ctx, obj, controllerutil.RemoveFinalizer))
}

// disable sets enabled = false in obj's registration and closes its pending invocation, unless another object stands
// for it.
func (r *WorkerFunctionReconciler) disable(ctx context.Context, obj *workersv1alpha1.WorkerFunction) error {
	connection, err := r.Resolver.ResolveDatabase(ctx, obj)
	if err != nil {
		return err
	}
	claims, err := r.claims(ctx, obj, connection.Identity())
	if err != nil {
		return err
	}
	if claims.heirs(obj) {
		return nil
	}
	database, err := r.Databases.Acquire(client.ObjectKeyFromObject(obj), connection, obj.FunctionName())
	if err != nil {
		return err
	}
	if seen := database.Lookup(obj.FunctionName()); seen.Err != nil {
		return seen.Err
	}
	done, ok := database.TryWrite(client.ObjectKeyFromObject(obj))
	if !ok {
		return errors.New("too many others are waiting for the database")
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, databaseDeadline, fmt.Errorf("the database did not answer within %v", databaseDeadline))
	defer cancel()
	if _, err := database.Store().Disable(ctx, obj.FunctionName()); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	// Closes a pending invocation as dismissed. Without it the invocation could admit nobody either, so it is not worth
	// waiting for.
	if _, err := database.Store().Reserve(ctx, obj.FunctionName()); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("A pending invocation may be left to expire", "error", err.Error())
	}
	return nil
}
