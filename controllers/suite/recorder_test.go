package suite_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// recorder keeps every version of every WorkerFunction, as the API server's watch tells them, and judges each.
type recorder struct {
	mu         sync.Mutex
	versions   map[types.NamespacedName][]*v1alpha1.WorkerFunction // oldest first
	gone       map[types.NamespacedName]bool
	violations []string
}

// record begins to watch and goes on until the suite ends.
func record() *recorder {
	GinkgoHelper()
	r := &recorder{versions: map[types.NamespacedName][]*v1alpha1.WorkerFunction{}, gone: map[types.NamespacedName]bool{}}
	w, err := k8s.Watch(context.Background(), &v1alpha1.WorkerFunctionList{})
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range w.ResultChan() {
			r.take(event)
		}
	}()
	DeferCleanup(func() {
		w.Stop()
		<-ended
	})
	return r
}

func (r *recorder) take(event watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	obj, ok := event.Object.(*v1alpha1.WorkerFunction)
	if !ok {
		r.violations = append(r.violations, fmt.Sprintf("the watch broke off: %v %v", event.Type, event.Object))
		return
	}
	key := client.ObjectKeyFromObject(obj)
	if event.Type == watch.Deleted {
		r.gone[key] = true
		return
	}
	var before *v1alpha1.WorkerFunction
	if old := r.versions[key]; len(old) > 0 && old[len(old)-1].UID == obj.UID {
		before = old[len(old)-1]
	}
	r.gone[key] = false
	r.versions[key] = append(r.versions[key], obj)
	for _, v := range violations(before, obj) {
		r.violations = append(r.violations, fmt.Sprintf("%s at version %s: %s\n%s", key, obj.ResourceVersion, v, tellStatus(obj)))
	}
}

// latest returns the newest version of an object; one without name when there is none.
func (r *recorder) latest(key types.NamespacedName) *v1alpha1.WorkerFunction {
	r.mu.Lock()
	defer r.mu.Unlock()
	if all := r.versions[key]; len(all) > 0 && !r.gone[key] {
		return all[len(all)-1]
	}
	return &v1alpha1.WorkerFunction{}
}

func (r *recorder) isGone(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone[key]
}

// writes returns the statuses that were written to an object, in their order.
func (r *recorder) writes(key types.NamespacedName) []v1alpha1.WorkerFunctionStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	var written []v1alpha1.WorkerFunctionStatus
	last := v1alpha1.WorkerFunctionStatus{}
	for _, version := range r.versions[key] {
		if !equality.Semantic.DeepEqual(last, version.Status) {
			last = version.Status
			written = append(written, last)
		}
	}
	return written
}

// reasons returns the reasons that Ready went through.
func (r *recorder) reasons(key types.NamespacedName) []string {
	var reasons []string
	for _, status := range r.writes(key) {
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c != nil {
			reasons = append(reasons, c.Reason)
		}
	}
	return slices.Compact(reasons)
}

// takeViolations returns what was found since it was called last.
func (r *recorder) takeViolations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.violations = nil }()
	return r.violations
}

// tell describes the objects that exist, for a failed spec's report.
func (r *recorder) tell() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text strings.Builder
	for key, all := range r.versions {
		if r.gone[key] {
			continue
		}
		fmt.Fprintf(&text, "%s, generation %d\n", key, all[len(all)-1].Generation)
		for _, version := range all {
			fmt.Fprintf(&text, "  %s\n", strings.ReplaceAll(tellStatus(version), "\n", "\n  "))
		}
	}
	return text.String()
}

// tellStatus describes a status in a few lines.
func tellStatus(obj *v1alpha1.WorkerFunction) string {
	s := obj.Status
	lines := []string{fmt.Sprintf("phase=%q observedGeneration=%d invocation=%v worker=%v applied=%v", s.Phase, s.ObservedGeneration, s.Invocation, s.Worker, s.Applied)}
	for _, c := range s.Conditions {
		lines = append(lines, fmt.Sprintf("  %s=%s %s (generation %d): %s", c.Type, c.Status, c.Reason, c.ObservedGeneration, c.Message))
	}
	return strings.Join(lines, "\n")
}
