package suite_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// readyReasons is the API's table: what stands beside Ready for each of its reasons.
var readyReasons = map[string]struct {
	status metav1.ConditionStatus
	beside string // Reconciling, Stalled or neither
}{
	v1alpha1.ReasonWorkerReady:      {metav1.ConditionTrue, ""},
	v1alpha1.ReasonWorkerUnverified: {metav1.ConditionTrue, ""},
	v1alpha1.ReasonReplacing:        {metav1.ConditionTrue, ""},
	v1alpha1.ReasonDisabled:         {metav1.ConditionTrue, ""},
	v1alpha1.ReasonProcessManaged:   {metav1.ConditionTrue, ""},

	v1alpha1.ReasonObserving:           {metav1.ConditionUnknown, v1alpha1.ConditionReconciling},
	v1alpha1.ReasonDatabaseUnavailable: {metav1.ConditionUnknown, v1alpha1.ConditionReconciling},
	v1alpha1.ReasonSpecNotApplied:      {metav1.ConditionFalse, v1alpha1.ConditionReconciling},
	v1alpha1.ReasonRegistrationMissing: {metav1.ConditionFalse, v1alpha1.ConditionReconciling},
	v1alpha1.ReasonStarting:            {metav1.ConditionFalse, v1alpha1.ConditionReconciling},
	v1alpha1.ReasonRetrying:            {metav1.ConditionFalse, v1alpha1.ConditionReconciling},
	v1alpha1.ReasonThrottled:           {metav1.ConditionFalse, v1alpha1.ConditionReconciling},

	v1alpha1.ReasonDisabledInDatabase:           {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonDuplicate:                    {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonSecretMissing:                {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonSecretInvalid:                {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonNamespaceNotAllowed:          {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonSetIncomplete:                {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonDatabaseURLInvalid:           {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonDatabaseAuthenticationFailed: {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonDatabasePermissionDenied:     {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonDatabaseReadOnly:             {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonSchemaMissing:                {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonAuthRejected:                 {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonRouteNotFound:                {metav1.ConditionFalse, v1alpha1.ConditionStalled},
	v1alpha1.ReasonRefused:                      {metav1.ConditionFalse, v1alpha1.ConditionStalled},
}

// onlyWhileTrue are the conditions that are absent otherwise.
var onlyWhileTrue = []string{
	v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionInvocationPending, v1alpha1.ConditionDrifted,
}

// violations returns what is wrong with the status of obj, whose version before is nil when there was none.
func violations(before, obj *v1alpha1.WorkerFunction) (found []string) {
	s := obj.Status
	if len(s.Conditions) == 0 && s.ObservedGeneration == 0 {
		return nil // not looked at yet
	}
	complain := func(ok bool, format string, args ...any) {
		if !ok {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	complain(s.ObservedGeneration >= 1 && s.ObservedGeneration <= obj.Generation, "observedGeneration %d, generation %d", s.ObservedGeneration, obj.Generation)
	if before != nil {
		complain(s.ObservedGeneration >= before.Status.ObservedGeneration, "observedGeneration went back to %d", s.ObservedGeneration)
	}
	for _, c := range s.Conditions {
		complain(c.Reason != "" && !c.LastTransitionTime.IsZero(), "%s has no reason or no transition time", c.Type)
		complain(c.ObservedGeneration >= 1 && c.ObservedGeneration <= s.ObservedGeneration, "%s has observedGeneration %d", c.Type, c.ObservedGeneration)
		complain(!slices.Contains(onlyWhileTrue, c.Type) || c.Status == metav1.ConditionTrue, "%s is present and %s", c.Type, c.Status)
		if before == nil {
			continue
		}
		if old := meta.FindStatusCondition(before.Status.Conditions, c.Type); old != nil && old.Status == c.Status {
			complain(old.LastTransitionTime.Equal(&c.LastTransitionTime), "%s did not change its status, but its transition time", c.Type)
		}
	}
	find := func(kind string) *metav1.Condition { return meta.FindStatusCondition(s.Conditions, kind) }
	ready, reconciling, stalled := find(v1alpha1.ConditionReady), find(v1alpha1.ConditionReconciling), find(v1alpha1.ConditionStalled)
	complain(find(v1alpha1.ConditionRegistered) != nil, "Registered is absent")
	complain(reconciling == nil || stalled == nil, "Reconciling and Stalled together")
	complain((find(v1alpha1.ConditionInvocationPending) != nil) == (s.Invocation != nil), "InvocationPending and status.invocation differ")
	if ready == nil {
		return append(found, "Ready is absent")
	}
	for _, c := range []*metav1.Condition{ready, reconciling, stalled} {
		if c != nil {
			complain(c.ObservedGeneration == s.ObservedGeneration, "%s is about generation %d", c.Type, c.ObservedGeneration)
			complain(c.Reason == ready.Reason, "%s has reason %s, Ready %s", c.Type, c.Reason, ready.Reason)
		}
	}
	beside := ""
	switch {
	case reconciling != nil:
		beside = v1alpha1.ConditionReconciling
	case stalled != nil:
		beside = v1alpha1.ConditionStalled
	}
	switch want, known := readyReasons[ready.Reason]; {
	case ready.Reason == v1alpha1.ReasonSuspended:
		complain(beside == "", "%s beside Suspended", beside)
	case !known:
		complain(false, "Ready has the unknown reason %q", ready.Reason)
	default:
		complain(ready.Status == want.status && beside == want.beside, "Ready is %s with %q beside it for %s", ready.Status, beside, ready.Reason)
	}
	complain(ready.Reason != v1alpha1.ReasonWorkerReady || s.Worker != nil && s.Worker.Verified, "WorkerReady without a verified worker")
	complain(ready.Reason != v1alpha1.ReasonWorkerUnverified || s.Worker != nil && !s.Worker.Verified, "WorkerUnverified without such a worker")

	text, _ := json.Marshal(s)
	for _, secret := range secrets.all() {
		complain(!strings.Contains(string(text), secret), "a credential is in the status")
	}
	return found
}
