package statuswriter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// settle gives the conditions of next the times of their last transitions: that
// of the condition before while the status is the same, else what next says, or
// now.
func settle(next *v1alpha1.WorkerFunctionStatus, before []metav1.Condition, now time.Time) {
	for i := range next.Conditions {
		c := &next.Conditions[i]
		old := meta.FindStatusCondition(before, c.Type)
		switch {
		case old != nil && old.Status == c.Status:
			c.LastTransitionTime = old.LastTransitionTime
		case c.LastTransitionTime.IsZero():
			c.LastTransitionTime = metav1.NewTime(now)
		}
	}
}

// stored returns the status as the server would give it back, with times in
// seconds and empty lists left out, so that it compares with what the server
// has. It shares nothing with its argument.
func stored(s *v1alpha1.WorkerFunctionStatus) (*v1alpha1.WorkerFunctionStatus, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	out := &v1alpha1.WorkerFunctionStatus{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("decoding a status: %w", err)
	}
	return out, nil
}

// same reports whether two statuses mean the same; the order of conditions does
// not matter.
func same(a, b *v1alpha1.WorkerFunctionStatus) bool {
	return equality.Semantic.DeepEqual(sorted(a), sorted(b))
}

// sorted returns a shallow copy with the conditions in the order of their types.
func sorted(s *v1alpha1.WorkerFunctionStatus) *v1alpha1.WorkerFunctionStatus {
	out := *s
	out.Conditions = slices.SortedFunc(slices.Values(s.Conditions), func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return &out
}

// replacement is the JSON patch that replaces the status of the object with this
// UID, and is refused by any other.
func replacement(uid types.UID, s *v1alpha1.WorkerFunctionStatus) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	// "add" replaces what is there, and also works where there is no status yet.
	data, err := json.Marshal([]operation{
		{Op: "test", Path: "/metadata/uid", Value: uid},
		{Op: "add", Path: "/status", Value: s},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a status: %w", err)
	}
	return data, nil
}
