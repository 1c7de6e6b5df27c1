package decision

import (
	"time"

	"github.com/google/uuid"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// Observed is everything that a decision and a status are made from. Times are the database's clock.
type Observed struct {
	// Generation, Spec and Previous are the object's: its generation, its spec and its newest status.
	Generation int64
	Spec       workersv1alpha1.WorkerFunctionSpec
	Previous   workersv1alpha1.WorkerFunctionStatus

	// Problem keeps the operator from acting for this object; nil: none.
	Problem *Problem

	// Read tells that the database has been read since the operator began to watch it. State is the registration's
	// state then; nil: it does not exist.
	Read  bool
	State *pgstate.State
	// Now is the database's clock now.
	Now time.Time

	// Delivery is what this process knows of sending the current invocation, LastDelivery of the one that ended last;
	// nil: it has not sent it.
	Delivery, LastDelivery *Delivery
	// Endpoint is the functions URL.
	Endpoint string
	// CredentialsChanged tells that the endpoint or the key is another than when the last invocation was sent, or that
	// this process has sent none yet: an operator that restarts may have other flags, and one attempt more tells.
	CredentialsChanged bool
}

// Problem is why the operator cannot act, as a condition says it.
type Problem struct {
	// Reason is one of the reasons of the API, Message says what was seen and what to do.
	Reason  string
	Message string
	// Kind tells who can end it; Seen, that the registration can be read all the same.
	Kind ProblemKind
	Seen bool
}

// ProblemKind tells who can end a problem.
type ProblemKind int

const (
	// ProblemStalled: a person.
	ProblemStalled ProblemKind = iota
	// ProblemReconciling: the operator, by trying again.
	ProblemReconciling
	// ProblemUnknown: the operator, by trying again; until then nothing is known of the function.
	ProblemUnknown
)

// Delivery is what is known of sending an invocation.
type Delivery struct {
	InvocationID uuid.UUID
	// HTTPStatus is the last answer's code; 0: none.
	HTTPStatus int
	// Message says what was seen last; printable, bounded, without credentials.
	Message string
}

// failedStarts counts a current invocation that has expired already as the failed start that it is closed as later,
// as the database does.
func (o Observed) failedStarts() int {
	if o.State.Invocation != nil && !o.invocationPending() {
		return o.State.FailedStarts + 1
	}
	return o.State.FailedStarts
}

// invocationPending tells whether the current invocation has not expired.
func (o Observed) invocationPending() bool {
	s := o.State
	return s.Invocation != nil && (s.Phase == pgstate.PhasePending ||
		s.Phase != pgstate.PhaseRetryable && s.Invocation.ExpiresAt.After(o.Now))
}

// refusal is the reason with which the endpoint's side refused the last invocation, and which only a person can mend;
// empty: it did not.
func (o Observed) refusal() string {
	if o.State == nil || o.State.LastOutcome != string(workersv1alpha1.OutcomeDismissed) {
		return ""
	}
	if o.State.Phase == pgstate.PhaseRetryable && o.State.Invocation != nil {
		return "" // a later invocation has expired since
	}
	if w := o.State.LastWorker; w != nil && w.StartedAt.After(o.State.LastOutcomeAt) {
		return "" // a worker has registered since, without an invocation
	}
	return refusalReason(o.State.LastOutcomeReason)
}
