package pgstate

import (
	"time"

	"github.com/google/uuid"
)

// Channel is the notification channel on which the database names the
// registrations whose state may have changed. An empty payload means "look at
// all". A notification only wakes: what is true is read with States.
const Channel = "pgflow_worker_functions"

// Decision is the answer of Reserve. The words are the database's.
type Decision string

const (
	// DecisionUnknown: there is no such registration.
	DecisionUnknown Decision = "unknown"
	// DecisionProcess: the worker is managed by a process supervisor, not started over HTTP.
	DecisionProcess Decision = "process"
	// DecisionDisabled: the registration is switched off.
	DecisionDisabled Decision = "disabled"
	// DecisionReady: a healthy worker exists.
	DecisionReady Decision = "ready"
	// DecisionPending: an invocation is pending; somebody else reserved it.
	DecisionPending Decision = "pending"
	// DecisionThrottled: the next attempt is not due yet.
	DecisionThrottled Decision = "throttled"
	// DecisionReserved: this call made the reservation; only this caller sends it.
	DecisionReserved Decision = "reserved"
)

// Reservation is the answer of Reserve.
type Reservation struct {
	Decision Decision
	// InvocationID is the pending or reserved invocation; uuid.Nil: none.
	InvocationID uuid.UUID
	// ExpiresAt is when that invocation expires, on the database's clock; zero: none.
	ExpiresAt time.Time
	// ExpiresIn is the invocation's remaining time by the database's clock when
	// it answered; zero or less: none or over. It needs no clock comparison.
	ExpiresIn time.Duration
	// RetryAt is when the next attempt is due, on the database's clock; zero: none.
	RetryAt time.Time
	// ReadyWorkerID is the healthy worker; uuid.Nil: none.
	ReadyWorkerID uuid.UUID
}

// Verdict is the answer of Receive and Accept. The words are the database's.
type Verdict string

const (
	// VerdictStart: the invocation is current and wants a worker; go on and start one.
	VerdictStart Verdict = "start"
	// VerdictAccepted: this worker was admitted, now or by an earlier call.
	VerdictAccepted Verdict = "accepted"
	// VerdictAcknowledged: a healthy worker exists already; do not start another.
	VerdictAcknowledged Verdict = "acknowledged"
	// VerdictRejected: do not start; the reason says why.
	VerdictRejected Verdict = "rejected"
)

// Receipt is the answer of Receive and Accept.
type Receipt struct {
	Verdict Verdict
	// Reason explains a rejection in the database's words; empty otherwise.
	Reason string
	// ReadyWorkerID is the healthy worker; uuid.Nil: none.
	ReadyWorkerID uuid.UUID
	// ExpiresAt is when the received invocation expires, on the database's
	// clock; zero: none, and always zero from Accept.
	ExpiresAt time.Time
}

// Phase is what a registration is in, in the words of the view.
type Phase string

const (
	// PhaseProcess: the worker is managed by a process supervisor.
	PhaseProcess Phase = "process"
	// PhaseDisabled: the registration is switched off.
	PhaseDisabled Phase = "disabled"
	// PhaseReady: a healthy worker exists.
	PhaseReady Phase = "ready"
	// PhasePending: the current invocation has not expired.
	PhasePending Phase = "pending"
	// PhaseRetryable: enabled, and neither ready nor pending.
	PhaseRetryable Phase = "retryable"
)

// State is what is known of one registration: its row of
// pgflow.worker_function_states and the few things beside it that a decision
// or a status needs. All times are the database's clock.
type State struct {
	FunctionName string
	Enabled      bool
	// StartMode is "http" or "process"; "http" also where pgflow has no start mode yet.
	StartMode string
	// Handshake is "permissive" or "required".
	Handshake string
	Phase     Phase

	Debounce         time.Duration
	PendingTimeout   time.Duration
	HeartbeatTimeout time.Duration

	// ReadyWorker is the healthy worker; nil: none.
	ReadyWorker *Worker
	// TakesPart tells whether an uncertain delivery of an invocation may be repeated.
	TakesPart bool
	// Invocation is the current one, which may have expired; nil: none.
	Invocation *Invocation
	// RetryAt is when the next attempt is due; zero: due now.
	RetryAt time.Time
	// FailedStarts counts invocations in a row that were dismissed or expired.
	FailedStarts int

	// LastInvocationID is the invocation that ended last; uuid.Nil: none did.
	LastInvocationID  uuid.UUID
	LastOutcome       string
	LastOutcomeReason string
	LastOutcomeAt     time.Time
	// LastWorker is the worker last admitted or acknowledging; nil: none, or
	// its row is gone. It may be the ready worker.
	LastWorker *EndedWorker
}

// Worker is a healthy worker.
type Worker struct {
	ID              uuid.UUID
	StartedAt       time.Time
	LastHeartbeatAt time.Time
	// Verified tells whether it was admitted with an invocation.
	Verified bool
}

// EndedWorker is a worker of which the end is of interest.
type EndedWorker struct {
	ID        uuid.UUID
	StartedAt time.Time
	// EndedAt is the earliest of its stop, its deprecation and the moment its
	// last heartbeat becomes too old. It lies in the future while the worker is
	// healthy, and is zero when the heartbeat itself lies so far in the future
	// that it counts as long past.
	EndedAt time.Time
	// Verified tells whether it was admitted with an invocation.
	Verified bool
}

// Invocation is a reserved start.
type Invocation struct {
	ID        uuid.UUID
	ExpiresAt time.Time
}

// Snapshot is one consistent reading of registrations.
type Snapshot struct {
	// Now is the database's clock when the reading began.
	Now    time.Time
	States []State
}

// Registration holds the fields of a registration that are to be written; nil
// leaves a field alone (or, on creation, to the column's default).
type Registration struct {
	Enabled          *bool
	StartMode        *string
	Debounce         *time.Duration
	PendingTimeout   *time.Duration
	HeartbeatTimeout *time.Duration
	Handshake        *string
}
