package decision

import (
	"strings"
	"time"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// Kind is what is to be done.
type Kind string

const (
	// Wait: nothing; the observer tells when something has changed or is due.
	Wait Kind = "Wait"
	// CreateRegistration: insert the registration with Action.Write.
	CreateRegistration Kind = "CreateRegistration"
	// ApplySpec: write Action.Write into the registration.
	ApplySpec Kind = "ApplySpec"
	// ClearThrottle: make the next attempt due now.
	ClearThrottle Kind = "ClearThrottle"
	// Reserve: reserve an invocation and, if one is reserved, send it. It also closes a current one that is over.
	Reserve Kind = "Reserve"
	// Send: send the pending invocation, which this process has not sent.
	Send Kind = "Send"
)

// Action is the next thing to do. Each changes the database, or makes a delivery known, so that the next observation
// leads to another one: none is decided twice for the same reason.
type Action struct {
	Kind Kind
	// Write is what CreateRegistration and ApplySpec write.
	Write pgstate.Registration
	// ExpiresIn is what is left of the invocation that Send sends.
	ExpiresIn time.Duration
}

// Decide returns the next thing to do for a function. It is total: any observation has an answer.
func Decide(o Observed) Action {
	switch {
	case o.Problem != nil, o.Spec.Suspend, !o.Read:
		return Action{Kind: Wait}
	case o.State == nil:
		return Action{Kind: CreateRegistration, Write: registration(o.Spec.Mirrored)}
	}
	if write := unapplied(o.Spec.Mirrored, o.Previous.Applied, *o.State); write != (pgstate.Registration{}) {
		return Action{Kind: ApplySpec, Write: write}
	}

	s := o.State
	switch s.Phase {
	case pgstate.PhasePending:
		if o.Delivery == nil && s.TakesPart {
			return Action{Kind: Send, ExpiresIn: s.Invocation.ExpiresAt.Sub(o.Now)}
		}
	case pgstate.PhaseRetryable:
		switch {
		case s.Invocation != nil || !s.RetryAt.After(o.Now):
			return Action{Kind: Reserve}
		case o.CredentialsChanged && o.refusal() != "":
			return Action{Kind: ClearThrottle}
		}
	default: // process, disabled, ready
		if s.Invocation != nil {
			return Action{Kind: Reserve}
		}
	}
	return Action{Kind: Wait}
}

// refusalReason translates the reason of a dismissal into the condition's; empty: it is not of the endpoint's side.
func refusalReason(reason string) string {
	switch {
	case reason == "auth_rejected":
		return workersv1alpha1.ReasonAuthRejected
	case reason == "route_not_found":
		return workersv1alpha1.ReasonRouteNotFound
	case reason == "redirected", reason == "invalid_name", strings.HasPrefix(reason, "http_"):
		return workersv1alpha1.ReasonRefused
	}
	return ""
}
