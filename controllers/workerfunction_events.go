package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// recordEvents tells a person what a status change means, where it means something: an ordinary start, end or retry
// does not.
func (r *WorkerFunctionReconciler) recordEvents(obj *workersv1alpha1.WorkerFunction, previous, next workersv1alpha1.WorkerFunctionStatus) {
	for _, watched := range []string{workersv1alpha1.ConditionStalled, workersv1alpha1.ConditionDrifted} {
		before := meta.FindStatusCondition(previous.Conditions, watched)
		after := meta.FindStatusCondition(next.Conditions, watched)
		switch {
		case after != nil && (before == nil || before.Reason != after.Reason):
			r.Events.Eventf(obj, nil, corev1.EventTypeWarning, after.Reason, "Reconcile", "%s", excerpt(after.Message))
		case after == nil && before != nil && watched == workersv1alpha1.ConditionStalled:
			r.Events.Eventf(obj, nil, corev1.EventTypeNormal, "Recovered", "Reconcile", "No longer stalled (was %s)", before.Reason)
		}
	}
}

// logStall logs what a person has to mend, once however many objects wait for it.
func (r *WorkerFunctionReconciler) logStall(ctx context.Context, object types.NamespacedName, next workersv1alpha1.WorkerFunctionStatus) {
	why := ""
	if c := meta.FindStatusCondition(next.Conditions, workersv1alpha1.ConditionStalled); c != nil &&
		c.Reason != workersv1alpha1.ReasonSchemaMissing && c.Reason != workersv1alpha1.ReasonDatabaseAuthenticationFailed {
		why = c.Reason + ": " + c.Message // those two the observer has logged, once per database
	}
	if r.stalls.set(object, why) {
		ctrl.LoggerFrom(ctx).Info("Stalled until a person mends it", "why", excerpt(why))
	}
}

// excerpt cuts a text to what the API server takes as an event's note.
func excerpt(s string) string {
	const limit = 1000
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
