package decision

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// registration returns the fields that the spec sets, as the database takes them.
func registration(m workersv1alpha1.Mirrored) pgstate.Registration {
	return pgstate.Registration{
		Enabled:          m.Enabled,
		StartMode:        (*string)(m.StartMode),
		Debounce:         durationOf(m.Debounce),
		PendingTimeout:   durationOf(m.PendingTimeout),
		HeartbeatTimeout: durationOf(m.HeartbeatTimeout),
		Handshake:        (*string)(m.Handshake),
	}
}

// inForce returns the row's values of the mirrored fields.
func inForce(s pgstate.State) pgstate.Registration {
	return pgstate.Registration{
		Enabled: &s.Enabled, StartMode: &s.StartMode, Debounce: &s.Debounce,
		PendingTimeout: &s.PendingTimeout, HeartbeatTimeout: &s.HeartbeatTimeout, Handshake: &s.Handshake,
	}
}

// unapplied returns the fields that the spec sets, that were not yet written as the spec has them, and that the row
// has otherwise: exactly what is to be written.
func unapplied(spec workersv1alpha1.Mirrored, applied *workersv1alpha1.Mirrored, s pgstate.State) pgstate.Registration {
	var done pgstate.Registration
	if applied != nil {
		done = registration(*applied)
	}
	want, have := registration(spec), inForce(s)
	return pgstate.Registration{
		Enabled:          pick(want.Enabled, done.Enabled, have.Enabled),
		StartMode:        pick(want.StartMode, done.StartMode, have.StartMode),
		Debounce:         pick(want.Debounce, done.Debounce, have.Debounce),
		PendingTimeout:   pick(want.PendingTimeout, done.PendingTimeout, have.PendingTimeout),
		HeartbeatTimeout: pick(want.HeartbeatTimeout, done.HeartbeatTimeout, have.HeartbeatTimeout),
		Handshake:        pick(want.Handshake, done.Handshake, have.Handshake),
	}
}

// pick returns want where it is set, not the one written last and not the one in force; else nil.
func pick[T comparable](want, done, have *T) *T {
	if want == nil || *want == *have || done != nil && *done == *want {
		return nil
	}
	return want
}

// drift says, field by field, where the row differs from what the spec sets.
func drift(spec workersv1alpha1.Mirrored, s pgstate.State) []string {
	want, have := registration(spec), inForce(s)
	var fields []string
	fields = differs(fields, "enabled", want.Enabled, have.Enabled)
	fields = differs(fields, "startMode", want.StartMode, have.StartMode)
	fields = differs(fields, "debounce", want.Debounce, have.Debounce)
	fields = differs(fields, "pendingTimeout", want.PendingTimeout, have.PendingTimeout)
	fields = differs(fields, "heartbeatTimeout", want.HeartbeatTimeout, have.HeartbeatTimeout)
	return differs(fields, "handshake", want.Handshake, have.Handshake)
}

func differs[T comparable](fields []string, name string, want, have *T) []string {
	if want == nil || *want == *have {
		return fields
	}
	return append(fields, fmt.Sprintf("%s is %v in the spec and %v in the database", name, *want, *have))
}

// recorded returns what status.applied says after the spec has been written; nil where the spec sets nothing.
func recorded(spec workersv1alpha1.Mirrored) *workersv1alpha1.Mirrored {
	if spec == (workersv1alpha1.Mirrored{}) {
		return nil
	}
	return spec.DeepCopy()
}

func durationOf(d *metav1.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return &d.Duration
}
