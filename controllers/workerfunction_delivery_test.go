package controllers

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/controllers/observer"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// Whether an id on its way may still start a worker: only what was read after its reservation counts against it.
func TestWanted(t *testing.T) {
	id, other := uuid.New(), uuid.New()
	since := time.Now()
	read := func(after time.Duration, s *pgstate.State) observer.Observation {
		return observer.Observation{Read: true, State: s, ReadAt: since.Add(after)}
	}
	current := func(phase pgstate.Phase, id uuid.UUID) *pgstate.State {
		return &pgstate.State{Phase: phase, TakesPart: true, Invocation: &pgstate.Invocation{ID: id}}
	}
	closed := func(phase pgstate.Phase, id uuid.UUID) *pgstate.State {
		return &pgstate.State{Phase: phase, TakesPart: true, LastInvocationID: id}
	}
	const soon, later = time.Second, databaseDeadline + time.Second
	for name, tc := range map[string]struct {
		seen   observer.Observation
		wanted bool
	}{
		"nothing read yet":                   {observer.Observation{}, true},
		"pending":                            {read(soon, current(pgstate.PhasePending, id)), true},
		"pending, read long after":           {read(later, current(pgstate.PhasePending, id)), true},
		"read before it was reserved":        {read(-soon, closed(pgstate.PhaseRetryable, other)), true},
		"read before, in its commit":         {read(soon, closed(pgstate.PhaseRetryable, other)), true},
		"read before, the worker had ended":  {read(-soon, current(pgstate.PhaseReady, other)), true},
		"registration gone":                  {read(soon, nil), false},
		"expired":                            {read(soon, current(pgstate.PhaseRetryable, id)), false},
		"disabled, not closed yet":           {read(soon, current(pgstate.PhaseDisabled, id)), false},
		"a worker is there, not closed yet":  {read(soon, current(pgstate.PhaseReady, id)), false},
		"closed: it or another was admitted": {read(soon, closed(pgstate.PhaseReady, id)), false},
		"closed: dismissed, disabled":        {read(soon, closed(pgstate.PhaseDisabled, id)), false},
		"closed, and another one is pending": {read(soon, &pgstate.State{Phase: pgstate.PhasePending, LastInvocationID: id, Invocation: &pgstate.Invocation{ID: other}}), false},
		"closed long ago, unseen":            {read(later, closed(pgstate.PhaseRetryable, other)), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(wanted(tc.seen, id, since)).To(Equal(tc.wanted))
			takesPart := tc.seen.State != nil && tc.seen.State.TakesPart
			g.Expect(mayResend(tc.seen, id, since)).To(Equal(tc.wanted && takesPart))
			if tc.seen.State != nil {
				tc.seen.State.TakesPart = false
				g.Expect(mayResend(tc.seen, id, since)).To(BeFalse())
			}
		})
	}
}

func TestCut(t *testing.T) {
	g := NewWithT(t)
	g.Expect(cut("short")).To(Equal("short"))
	g.Expect(cut(strings.Repeat("ä", 1024))).To(Equal(strings.Repeat("ä", 1024)))
	g.Expect(cut(strings.Repeat("ä", 100_000))).To(Equal(strings.Repeat("ä", 1024)))
}
