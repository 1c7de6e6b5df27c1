package observer

import (
	"time"

	"github.com/google/uuid"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// aspect is what a decision or a status looks at in a State, at one reading of the database's clock. Two readings with
// equal aspects need no reconcile. Heartbeats are not in it, and whatever moves with them is not either; a deadline
// appears as the fact that it has passed.
type aspect struct {
	registered bool

	enabled, takesPart   bool
	startMode, handshake string
	phase                pgstate.Phase
	debounce             time.Duration
	pendingTimeout       time.Duration
	heartbeatTimeout     time.Duration
	retryAt              int64 // 0 while due, and in phases that are not retried
	failedStarts         int

	readyWorker         uuid.UUID
	readyWorkerStarted  int64
	readyWorkerVerified bool

	invocation        uuid.UUID
	invocationExpires int64
	invocationExpired bool

	lastInvocation    uuid.UUID
	lastOutcome       string
	lastOutcomeReason string
	lastOutcomeAt     int64

	lastWorker         uuid.UUID
	lastWorkerStarted  int64
	lastWorkerEnded    int64 // 0 while it has no successor to wait for
	lastWorkerVerified bool
	replacementOverdue bool
}

// aspectOf returns the aspect of a state read when the database's clock showed now; s is nil for a function without
// registration.
func aspectOf(s *pgstate.State, now time.Time) aspect {
	if s == nil {
		return aspect{}
	}
	a := aspect{
		registered: true,
		enabled:    s.Enabled, takesPart: s.TakesPart,
		startMode: s.StartMode, handshake: s.Handshake,
		phase:    s.Phase,
		debounce: s.Debounce, pendingTimeout: s.PendingTimeout, heartbeatTimeout: s.HeartbeatTimeout,
		failedStarts:   s.FailedStarts,
		lastInvocation: s.LastInvocationID,
		lastOutcome:    s.LastOutcome, lastOutcomeReason: s.LastOutcomeReason, lastOutcomeAt: instant(s.LastOutcomeAt),
	}
	if w := s.ReadyWorker; w != nil {
		a.readyWorker, a.readyWorkerStarted, a.readyWorkerVerified = w.ID, instant(w.StartedAt), w.Verified
	}
	if i := s.Invocation; i != nil {
		a.invocation, a.invocationExpires, a.invocationExpired = i.ID, instant(i.ExpiresAt), !i.ExpiresAt.After(now)
	}
	if s.Phase == pgstate.PhaseRetryable && s.RetryAt.After(now) {
		a.retryAt = instant(s.RetryAt)
	}
	if w := s.LastWorker; w != nil {
		a.lastWorker, a.lastWorkerStarted, a.lastWorkerVerified = w.ID, instant(w.StartedAt), w.Verified
		if end, ended := replacementLimit(s); ended {
			a.lastWorkerEnded, a.replacementOverdue = instant(w.EndedAt), !end.After(now)
		}
	}
	return a
}

// deadlineOf returns the earliest moment, by the database's clock, at which the aspect of a state changes though
// nothing is written; zero: none. soft says that a heartbeat may move it before it comes.
func deadlineOf(s *pgstate.State, now time.Time) (deadline time.Time, soft bool) {
	if s == nil {
		return time.Time{}, false
	}
	consider := func(t time.Time, isSoft bool) {
		if t.After(now) && (deadline.IsZero() || t.Before(deadline)) {
			deadline, soft = t, isSoft
		}
	}
	if s.ReadyWorker != nil {
		consider(heartbeatLimit(s), true)
	}
	if s.Invocation != nil {
		consider(s.Invocation.ExpiresAt, false)
	}
	if s.Phase == pgstate.PhaseRetryable {
		consider(s.RetryAt, false)
	}
	if end, ended := replacementLimit(s); ended {
		consider(end, false)
	}
	return deadline, soft
}

// heartbeatLimit returns when the ready worker stops being healthy unless it beats again.
func heartbeatLimit(s *pgstate.State) time.Time {
	return s.ReadyWorker.LastHeartbeatAt.Add(s.HeartbeatTimeout)
}

// replacementLimit returns until when the absence of a worker counts as an ordinary replacement of the last one; false
// while there is none to replace. Without a ready worker the last one has ended; with one, its end may lie ahead and
// move with its heartbeats.
func replacementLimit(s *pgstate.State) (time.Time, bool) {
	if s.LastWorker == nil || (s.Phase != pgstate.PhasePending && s.Phase != pgstate.PhaseRetryable) {
		return time.Time{}, false
	}
	return s.LastWorker.EndedAt.Add(s.PendingTimeout), true
}

// instant is a comparable form of t: microseconds, PostgreSQL's resolution; 0 for the zero time.
func instant(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
