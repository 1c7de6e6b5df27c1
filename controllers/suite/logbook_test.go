package suite_test

import (
	"context"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// logBook keeps what the operator logs, down to V(1).
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBook) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lines = append(b.lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 1})
}

// mark returns the place in the log for since.
func (b *logBook) mark() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.lines)
}

// since returns the lines that a person sees by default, of those written after a mark that hold text.
func (b *logBook) since(mark int, text string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var shown []string
	for _, line := range b.lines[mark:] {
		if !strings.Contains(line, `"level"=1`) && strings.Contains(line, text) {
			shown = append(shown, line)
		}
	}
	return shown
}

func (b *logBook) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}

func (b *logBook) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines[max(0, len(b.lines)-n):], "\n")
}

// secretBook knows every credential of the suite.
type secretBook struct {
	mu    sync.Mutex
	texts []string
}

var secrets = &secretBook{}

func (b *secretBook) add(text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.texts = append(b.texts, text)
	return text
}

func (b *secretBook) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.texts...)
}

// reconciles counts the operator's reconciles, of all objects.
func reconciles() int {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	n := 0.0
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, metric := range family.GetMetric() {
				n += metric.GetCounter().GetValue()
			}
		}
	}
	return int(n)
}

// eventReasons returns the reasons of the events about an object.
func eventReasons(ctx context.Context, obj client.Object) []string {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(k8s.List(ctx, &list, client.InNamespace(obj.GetNamespace()))).To(Succeed())
	reasons := []string{}
	for i := range list.Items {
		if list.Items[i].Regarding.UID == obj.GetUID() {
			reasons = append(reasons, list.Items[i].Reason)
		}
	}
	return reasons
}

// allEvents returns all that events say.
func allEvents(ctx context.Context) string {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(k8s.List(ctx, &list)).To(Succeed())
	notes := make([]string, len(list.Items))
	for i := range list.Items {
		notes[i] = list.Items[i].Note
	}
	return strings.Join(notes, "\n")
}
