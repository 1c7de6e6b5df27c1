package decision

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// ordinaryLife is how long a worker must have lived for its end to be an ordinary one.
const ordinaryLife = 10 * time.Second

// Status returns what a person is shown for an observation. Its conditions carry the transition times of the previous
// status where they did not change, and a zero time, for the writer to fill in, where they did.
func Status(o Observed) workersv1alpha1.WorkerFunctionStatus {
	status := *o.Previous.DeepCopy()
	status.ObservedGeneration = o.Generation
	if o.Read && o.known() {
		observe(&status, o)
	}
	ready := readiness(o)
	setCondition(&status, o, workersv1alpha1.ConditionReady, ready.status, ready.reason, ready.message)
	present(&status, o, workersv1alpha1.ConditionReconciling, ready.kind == reconciling, ready.reason, ready.message)
	present(&status, o, workersv1alpha1.ConditionStalled, ready.kind == stalled, ready.reason, ready.message)
	registered(&status, o, ready)
	pending(&status, o)
	drifted(&status, o)
	return status
}

// WorthWriting tells whether a status says something that the previous one does not. That a request was answered with
// a success is not worth a write of its own: readiness follows, or the expiry.
func WorthWriting(previous, next workersv1alpha1.WorkerFunctionStatus) bool {
	if i := next.Invocation; i != nil && previous.Invocation != nil && i.ID == previous.Invocation.ID &&
		i.LastHTTPStatus != nil && *i.LastHTTPStatus/100 == 2 && previous.Invocation.LastHTTPStatus == nil {
		next = *next.DeepCopy()
		next.Invocation.LastHTTPStatus = nil
	}
	return !equality.Semantic.DeepEqual(previous, next)
}

// known tells whether the registration's state may be shown: the database answered, and the object is the one that
// stands for the registration.
func (o Observed) known() bool { return o.Problem == nil || o.Problem.Seen }

// observe fills in what was read, and what was applied.
func observe(status *workersv1alpha1.WorkerFunctionStatus, o Observed) {
	status.Phase, status.Registration, status.Invocation = "", nil, nil
	status.Worker, status.LastOutcome, status.NextAttemptAt = nil, nil, nil
	s := o.State
	if s == nil {
		status.Applied = nil
		return
	}
	if !o.Spec.Suspend && unapplied(o.Spec.Mirrored, o.Previous.Applied, *s) == (pgstate.Registration{}) {
		status.Applied = recorded(o.Spec.Mirrored)
	}
	status.Phase = phases[s.Phase]
	status.Registration = &workersv1alpha1.RegistrationStatus{
		Enabled:          s.Enabled,
		StartMode:        s.StartMode,
		Debounce:         metav1.Duration{Duration: s.Debounce},
		PendingTimeout:   metav1.Duration{Duration: s.PendingTimeout},
		HeartbeatTimeout: metav1.Duration{Duration: s.HeartbeatTimeout},
		Handshake:        s.Handshake,
		TakesPart:        s.TakesPart,
	}
	if o.invocationPending() {
		status.Invocation = &workersv1alpha1.InvocationStatus{ID: s.Invocation.ID.String(), ExpiresAt: seconds(s.Invocation.ExpiresAt)}
		if d := o.Delivery; d != nil && d.InvocationID == s.Invocation.ID && d.HTTPStatus != 0 {
			code := int32(d.HTTPStatus) //nolint:gosec // G115: a status code has three digits
			status.Invocation.LastHTTPStatus = &code
		} else if i := o.Previous.Invocation; i != nil && i.ID == status.Invocation.ID {
			status.Invocation.LastHTTPStatus = i.LastHTTPStatus
		}
	}
	if w := s.ReadyWorker; w != nil {
		status.Worker = &workersv1alpha1.WorkerStatus{ID: w.ID.String(), StartedAt: seconds(w.StartedAt), Verified: w.Verified}
	}
	if s.LastInvocationID != uuid.Nil && s.LastOutcome != "" {
		status.LastOutcome = &workersv1alpha1.LastOutcome{
			InvocationID: s.LastInvocationID.String(),
			Outcome:      workersv1alpha1.Outcome(s.LastOutcome),
			Reason:       printable(s.LastOutcomeReason),
			At:           seconds(s.LastOutcomeAt),
			FailedStarts: int32(min(s.FailedStarts, 1<<20)), //nolint:gosec // G115: bounded here
		}
	}
	if s.Phase == pgstate.PhaseRetryable && s.RetryAt.After(o.Now) {
		at := seconds(s.RetryAt)
		status.NextAttemptAt = &at
	}
}

// kind is how the state of readiness is shown beside Ready.
type kind int

const (
	settled kind = iota
	reconciling
	stalled
)

// verdict is the Ready condition, and whether Reconciling or Stalled stands beside it.
type verdict struct {
	status          metav1.ConditionStatus
	kind            kind
	reason, message string
}

// readiness is the table of the API's conditions, top to bottom: the first line that applies.
func readiness(o Observed) verdict {
	s := o.State
	switch {
	case o.Spec.Suspend:
		last := metav1.ConditionUnknown
		if c := meta.FindStatusCondition(o.Previous.Conditions, workersv1alpha1.ConditionReady); c != nil {
			last = c.Status
		}
		return verdict{last, settled, workersv1alpha1.ReasonSuspended,
			"spec.suspend is true: the operator only watches; set it to false to resume"}
	case o.Problem != nil:
		switch o.Problem.Kind {
		case ProblemUnknown:
			return verdict{metav1.ConditionUnknown, reconciling, o.Problem.Reason, o.Problem.Message}
		case ProblemReconciling:
			return verdict{metav1.ConditionFalse, reconciling, o.Problem.Reason, o.Problem.Message}
		default:
			return verdict{metav1.ConditionFalse, stalled, o.Problem.Reason, o.Problem.Message}
		}
	case !o.Read:
		return verdict{metav1.ConditionUnknown, reconciling, workersv1alpha1.ReasonObserving, "the database has not been read yet"}
	case s == nil:
		return verdict{metav1.ConditionFalse, reconciling, workersv1alpha1.ReasonRegistrationMissing,
			"the function is not registered in the database; it is registered next"}
	case unapplied(o.Spec.Mirrored, o.Previous.Applied, *s) != (pgstate.Registration{}):
		return verdict{metav1.ConditionFalse, reconciling, workersv1alpha1.ReasonSpecNotApplied,
			"the registration does not have the spec's values yet"}
	}

	switch s.Phase {
	case pgstate.PhaseProcess:
		return verdict{metav1.ConditionTrue, settled, workersv1alpha1.ReasonProcessManaged,
			"the start mode is process: the worker's process starts by itself"}
	case pgstate.PhaseDisabled:
		if o.Spec.Enabled != nil && !*o.Spec.Enabled {
			return verdict{metav1.ConditionTrue, settled, workersv1alpha1.ReasonDisabled, "disabled by spec.enabled"}
		}
		return verdict{metav1.ConditionFalse, stalled, workersv1alpha1.ReasonDisabledInDatabase,
			"the function is disabled in the database: by pgflow (a worker with a wrong route), by a person, or by the deletion " +
				"of an earlier object. When its cause is mended, set enabled = true in its row of pgflow.worker_functions, " +
				"or spec.enabled: true where the spec does not say so yet"}
	case pgstate.PhaseReady:
		if s.ReadyWorker != nil && s.ReadyWorker.Verified {
			return verdict{metav1.ConditionTrue, settled, workersv1alpha1.ReasonWorkerReady, "a worker is running"}
		}
		return verdict{metav1.ConditionTrue, settled, workersv1alpha1.ReasonWorkerUnverified,
			"a worker is running that registered without an invocation; that it is the only one is not vouched for"}
	}
	return starting(o)
}

// starting is readiness where a start is wanted or pending.
func starting(o Observed) verdict {
	s := o.State
	if reason := o.refusal(); reason != "" {
		return verdict{metav1.ConditionFalse, stalled, reason, refusalMessage(o)}
	}
	if w := s.LastWorker; w != nil && o.failedStarts() == 0 && !w.EndedAt.IsZero() &&
		w.EndedAt.Sub(w.StartedAt) >= ordinaryLife && o.Now.Before(w.EndedAt.Add(s.PendingTimeout)) {
		return verdict{metav1.ConditionTrue, settled, workersv1alpha1.ReasonReplacing,
			"the worker ended as workers do, and the next one is being started"}
	}
	failed := o.failedStarts()
	switch {
	case s.Phase == pgstate.PhaseRetryable && s.RetryAt.After(o.Now):
		message := "the next start is attempted at " + s.RetryAt.UTC().Format(time.RFC3339)
		if failed > 0 {
			message = fmt.Sprintf("%s; %s", lastFailure(o, failed), message)
		}
		return verdict{metav1.ConditionFalse, reconciling, workersv1alpha1.ReasonThrottled, message}
	case failed > 0:
		return verdict{metav1.ConditionFalse, reconciling, workersv1alpha1.ReasonRetrying,
			lastFailure(o, failed) + "; started again" + deliveryNote(o)}
	}
	return verdict{metav1.ConditionFalse, reconciling, workersv1alpha1.ReasonStarting,
		"a worker is being started" + deliveryNote(o)}
}

// lastFailure says how the last start failed, and how many did in a row.
func lastFailure(o Observed, failed int) string {
	what := "the last start expired before a worker registered"
	if s := o.State; s.LastOutcome == string(workersv1alpha1.OutcomeDismissed) && (s.Invocation == nil || o.invocationPending()) {
		what = "the last start was dismissed"
		if s.LastOutcomeReason != "" {
			what += ": " + printable(s.LastOutcomeReason)
		}
	}
	if failed == 1 {
		return what
	}
	return fmt.Sprintf("%s (%d failed in a row)", what, failed)
}

// deliveryNote says what the request met, where that was no success.
func deliveryNote(o Observed) string {
	d := o.Delivery
	if d == nil || o.State.Invocation == nil || d.InvocationID != o.State.Invocation.ID {
		return ""
	}
	switch {
	case d.HTTPStatus/100 == 2 || d.HTTPStatus == 409 || d.HTTPStatus == 0 && d.Message == "":
		return ""
	case d.HTTPStatus == 0:
		return "; the request met: " + d.Message
	case d.Message == "":
		return fmt.Sprintf("; the endpoint answered %d", d.HTTPStatus)
	}
	return fmt.Sprintf("; the endpoint answered %d: %s", d.HTTPStatus, d.Message)
}

// refusalMessage says what the endpoint refused and what to do about it.
func refusalMessage(o Observed) string {
	var do string
	switch o.refusal() {
	case workersv1alpha1.ReasonAuthRejected:
		do = fmt.Sprintf("%s refused the key (%s): correct the key in the Secret", o.Endpoint, answered(o, "401 or 403"))
	case workersv1alpha1.ReasonRouteNotFound:
		do = o.Endpoint + " knows no such function (404): deploy it, or correct the URL"
	default:
		do = fmt.Sprintf("%s refused the request (%s): correct the URL",
			o.Endpoint, answered(o, printable(o.State.LastOutcomeReason)))
	}
	switch last := meta.FindStatusCondition(o.Previous.Conditions, workersv1alpha1.ConditionReady); {
	case o.LastDelivery != nil && o.LastDelivery.Message != "":
		do += fmt.Sprintf("; it said: %s", o.LastDelivery.Message)
	case o.LastDelivery == nil && last != nil && last.Reason == o.refusal():
		return last.Message // what it said is known from an attempt before this one
	}
	return do + "; it is tried again now and then (status.nextAttemptAt), and as soon as key or URL change"
}

// answered is the code that the endpoint answered the last invocation with; otherwise, where this process has not seen it.
func answered(o Observed, otherwise string) string {
	if d := o.LastDelivery; d != nil && d.HTTPStatus != 0 {
		return strconv.Itoa(d.HTTPStatus)
	}
	return otherwise
}

// registered sets the Registered condition.
func registered(status *workersv1alpha1.WorkerFunctionStatus, o Observed, ready verdict) {
	const registered = workersv1alpha1.ConditionRegistered
	switch {
	case !o.known(): // what was known of it stays, without vouching for it
		setCondition(status, o, registered, metav1.ConditionUnknown, o.Problem.Reason, o.Problem.Message)
	case !o.Read:
		setCondition(status, o, registered, metav1.ConditionUnknown, workersv1alpha1.ReasonObserving, ready.message)
	case o.State == nil:
		setCondition(status, o, registered, metav1.ConditionFalse, workersv1alpha1.ReasonRegistrationMissing,
			"the function is not registered in the database")
	default:
		setCondition(status, o, registered, metav1.ConditionTrue, workersv1alpha1.ReasonRegistered,
			"the function is registered in the database")
	}
}

// pending sets the InvocationPending condition.
func pending(status *workersv1alpha1.WorkerFunctionStatus, o Observed) {
	if !o.Read || !o.known() {
		if !o.known() {
			meta.RemoveStatusCondition(&status.Conditions, workersv1alpha1.ConditionInvocationPending)
			status.Invocation = nil
		}
		return
	}
	is := o.State != nil && o.invocationPending()
	message := ""
	if is {
		message = "an invocation is pending until " + o.State.Invocation.ExpiresAt.UTC().Format(time.RFC3339)
	}
	present(status, o, workersv1alpha1.ConditionInvocationPending, is, workersv1alpha1.ReasonReserved, message)
}

// drifted sets the Drifted condition: of fields that were written as the spec has them, and differ now.
func drifted(status *workersv1alpha1.WorkerFunctionStatus, o Observed) {
	if !o.Read || !o.known() {
		return
	}
	var fields []string
	message := "changed by others, and left as it is: "
	if o.State != nil {
		waits := unapplied(o.Spec.Mirrored, o.Previous.Applied, *o.State) != (pgstate.Registration{})
		switch {
		case !waits:
			fields = drift(o.Spec.Mirrored, *o.State)
		case o.Spec.Suspend:
			fields = drift(o.Spec.Mirrored, *o.State)
			message = "not written while spec.suspend is true: "
		}
	}
	message += strings.Join(fields, "; ")
	present(status, o, workersv1alpha1.ConditionDrifted, len(fields) > 0, workersv1alpha1.ReasonValuesDiffer, message)
}

// present sets a condition that is present only while it is True.
func present(status *workersv1alpha1.WorkerFunctionStatus, o Observed, conditionType string, is bool, reason, message string) {
	if !is {
		meta.RemoveStatusCondition(&status.Conditions, conditionType)
		return
	}
	setCondition(status, o, conditionType, metav1.ConditionTrue, reason, message)
}

// setCondition sets a condition. A zero transition time stands for "now", which this package does not know.
func setCondition(status *workersv1alpha1.WorkerFunctionStatus, o Observed, conditionType string, is metav1.ConditionStatus, reason, message string) {
	c := metav1.Condition{
		Type: conditionType, Status: is, ObservedGeneration: o.Generation, Reason: reason, Message: message,
	}
	if old := meta.FindStatusCondition(status.Conditions, conditionType); old != nil {
		if old.Status == is {
			c.LastTransitionTime = old.LastTransitionTime
		}
		*old = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}

// phases translates the database's words for the API.
var phases = map[pgstate.Phase]workersv1alpha1.Phase{
	pgstate.PhaseProcess:   workersv1alpha1.PhaseProcess,
	pgstate.PhaseDisabled:  workersv1alpha1.PhaseDisabled,
	pgstate.PhaseReady:     workersv1alpha1.PhaseReady,
	pgstate.PhasePending:   workersv1alpha1.PhasePending,
	pgstate.PhaseRetryable: workersv1alpha1.PhaseRetryable,
}

// seconds is a time as the API server keeps it: it would otherwise differ from its own copy for ever.
func seconds(t time.Time) metav1.Time {
	return metav1.NewTime(t.UTC().Truncate(time.Second))
}

// printable cuts what others wrote to 256 printable characters.
func printable(s string) string {
	const limit = 256
	out := make([]rune, 0, min(len(s), limit))
	for _, r := range s {
		if len(out) == limit {
			break
		}
		if r < ' ' || r == 0x7f || r == '\ufffd' {
			r = ' '
		}
		out = append(out, r)
	}
	return string(out)
}
