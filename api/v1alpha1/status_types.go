package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkerFunctionStatus is what the operator last saw. It changes when something happens, never by itself.
type WorkerFunctionStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Phase is the phase of the handshake, as the database's view pgflow.worker_function_states has it. Empty until
	// the registration has been read, and when there is none.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Registration holds the values in force, as read from the registration, whoever set them.
	//
	// +optional
	Registration *RegistrationStatus `json:"registration,omitempty"`

	// Applied holds the mirrored fields as the operator last wrote them for this object. What differs from the
	// registration and not from this was changed by someone else.
	//
	// +optional
	Applied *Mirrored `json:"applied,omitempty"`

	// Invocation is the pending invocation; not set when none is pending.
	//
	// +optional
	Invocation *InvocationStatus `json:"invocation,omitempty"`

	// Worker is the healthy worker; not set when there is none.
	//
	// +optional
	Worker *WorkerStatus `json:"worker,omitempty"`

	// LastOutcome is how the last invocation ended; not set when none has ended yet.
	//
	// +optional
	LastOutcome *LastOutcome `json:"lastOutcome,omitempty"`

	// NextAttemptAt is when the next start may be attempted, by the database's clock; not set when it is not
	// waited for.
	//
	// +optional
	NextAttemptAt *metav1.Time `json:"nextAttemptAt,omitempty"`

	// Conditions are Ready, Reconciling, Stalled, Registered, InvocationPending and Drifted.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Phase is the phase of the handshake. The first that applies, in the order of the constants.
//
// +kubebuilder:validation:Enum=Process;Disabled;Ready;Pending;Retryable
type Phase string

const (
	// PhaseProcess is a function whose process starts by itself.
	PhaseProcess Phase = "Process"
	// PhaseDisabled is a function that is not enabled in the database.
	PhaseDisabled Phase = "Disabled"
	// PhaseReady is a function with a healthy worker.
	PhaseReady Phase = "Ready"
	// PhasePending is a function with an invocation that has not expired.
	PhasePending Phase = "Pending"
	// PhaseRetryable is a function that is enabled and neither ready nor pending.
	PhaseRetryable Phase = "Retryable"
)

// RegistrationStatus holds the values in force of a registration. They are shown as the database has them, not held
// to the bounds of the spec.
type RegistrationStatus struct {
	// Enabled says whether the function is started at all.
	Enabled bool `json:"enabled"`
	// StartMode is http, process, or what a later pgflow adds.
	StartMode string `json:"startMode"`
	// Debounce is the shortest time between two attempts to start the function.
	Debounce metav1.Duration `json:"debounce"`
	// PendingTimeout is how long an invocation stays pending.
	PendingTimeout metav1.Duration `json:"pendingTimeout"`
	// HeartbeatTimeout is how old the last heartbeat of a healthy worker may be.
	HeartbeatTimeout metav1.Duration `json:"heartbeatTimeout"`
	// Handshake says whether a worker may register without an invocation.
	Handshake string `json:"handshake"`
	// TakesPart says that the function's workers take part in the handshake: it is required, or the worker last
	// admitted was verified. Only then is an invocation sent again whose delivery is uncertain.
	TakesPart bool `json:"takesPart"`
}

// InvocationStatus is a pending invocation.
type InvocationStatus struct {
	// ID is the invocation's id. It correlates; it is no secret and gives no right.
	ID string `json:"id"`
	// ExpiresAt is when the invocation expires, by the database's clock.
	ExpiresAt metav1.Time `json:"expiresAt"`
	// LastHTTPStatus is the code of the last answer to a request with this invocation; not set while there is none.
	//
	// +optional
	LastHTTPStatus *int32 `json:"lastHTTPStatus,omitempty"`
}

// WorkerStatus is a healthy worker.
type WorkerStatus struct {
	// ID is the worker's id in pgflow.workers.
	ID string `json:"id"`
	// StartedAt is when the worker registered, by the database's clock.
	StartedAt metav1.Time `json:"startedAt"`
	// Verified says that the worker was admitted with an invocation.
	Verified bool `json:"verified"`
}

// LastOutcome is how an invocation ended.
type LastOutcome struct {
	// InvocationID is the id of the invocation that ended.
	InvocationID string `json:"invocationID"`
	// Outcome is how it ended.
	Outcome Outcome `json:"outcome"`
	// Reason says more, for example auth_rejected for a dismissed invocation. Programs in other languages write
	// it too, so its writer cuts it to 256 printable characters.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// At is when it ended, by the database's clock.
	At metav1.Time `json:"at"`
	// FailedStarts is how many invocations in a row were dismissed or expired, this one included. Each doubles the
	// time to the next attempt.
	//
	// +optional
	FailedStarts int32 `json:"failedStarts,omitempty"`
}

// Outcome is how an invocation ended, in the words of the database.
//
// +kubebuilder:validation:Enum=accepted;acknowledged;dismissed;expired;unverified
type Outcome string

const (
	// OutcomeAccepted admitted a worker.
	OutcomeAccepted Outcome = "accepted"
	// OutcomeAcknowledged found a healthy worker, so that no start was needed.
	OutcomeAcknowledged Outcome = "acknowledged"
	// OutcomeDismissed was given up by its sender.
	OutcomeDismissed Outcome = "dismissed"
	// OutcomeExpired admitted nothing in time.
	OutcomeExpired Outcome = "expired"
	// OutcomeUnverified was superseded by a worker that registered without an invocation.
	OutcomeUnverified Outcome = "unverified"
)
