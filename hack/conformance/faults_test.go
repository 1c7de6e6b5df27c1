package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

// fault is what a specimen does wrong.
type fault string

const (
	none            fault = "nothing"
	heartless       fault = "its loop never beats"
	soreLoser       fault = "registers without an id where another runtime won"
	derivesID       fault = "makes its worker's id from the invocation's"
	impatient       fault = "refuses requests while others wait"
	startsTwice     fault = "claims another start when its id comes again"
	ignoresReady    fault = "starts although acknowledged"
	nameless        fault = "does not name its loop when it receives"
	startsExpired   fault = "starts although expired"
	startsTaken     fault = "starts although taken"
	startsVoid      fault = "starts although superseded"
	servesAnybody   fault = "serves whichever function the id belongs to"
	nilIsNone       fault = "takes the nil id for none"
	malformedIsNone fault = "takes a malformed id for none"
	startsDisabled  fault = "starts although disabled"
	deaf            fault = "begins its loop although it was refused"
	accumulates     fault = "asks to be admitted with an earlier id"
	fragile         fault = "does not serve the id after a refusal"
	boundToSender   fault = "drops its start with its sender and never takes that id again"
	givesUp         fault = "does not ask again when its answer was lost"
	forgetful       fault = "asks again in another worker's name"
	hurried         fault = "does not ask again after a lock timeout"
	undismissed     fault = "leaves a failed start pending"
	blindToItsRow   fault = "says that it runs although its row is gone"
	keyless         fault = "does not look at the key"
	pushy           fault = "starts without an id while one is pending"
	untracked       fault = "does not register its function"
)

// TestFaults has a wrong worker for each case, which that case catches and no other does.
func TestFaults(t *testing.T) {
	t.Parallel()
	caught := map[string]bool{}
	all := t
	databases := make(chan string, 64) // used again: each run leaves a database as it found it
	for _, wrong := range []struct {
		fault  fault
		caught string
	}{
		{heartless, "start"},
		{soreLoser, "two-runtimes"},
		{derivesID, "two-runtimes"},
		{impatient, "one-runtime"},
		{startsTwice, "repeated"},
		{ignoresReady, "healthy"},
		{nameless, "busy-loop"},
		{startsExpired, "late"},
		{startsTaken, "used"},
		{startsVoid, "superseded"},
		{servesAnybody, "foreign"},
		{nilIsNone, "unknown"},
		{malformedIsNone, "malformed"},
		{startsDisabled, "switched-off"},
		{deaf, "slow-boot"},
		{accumulates, "slow-boot"},
		{fragile, "slow-boot"},
		{boundToSender, "sender-gone"},
		{givesUp, "lost-answer"},
		{forgetful, "lost-answer"},
		{hurried, "lock-timeout"},
		{undismissed, "failed-start"},
		{blindToItsRow, "ended"},
		{keyless, "wrong-key"},
		{pushy, "no-id"},
		{untracked, "unregistered"},
	} {
		caught[wrong.caught] = true
		t.Run(string(wrong.fault), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			var database string
			select {
			case database = <-databases:
			default:
				database, _ = migrated(all)
			}
			defer func() { databases <- database }()
			endpoints := []string{runtime(t, database, wrong.fault), runtime(t, database, wrong.fault)}
			code, r, stderr := drive(t, database, endpoints, "--timeout", "12s")
			g.Expect(code).To(Equal(exitFailed), stderr)
			g.Expect(r.with(failed)).To(Equal([]string{wrong.caught}), r.table())
			g.Expect(r.with(skipped)).To(BeEmpty())
		})
	}
	for _, c := range cases() {
		if !caught[c.name] {
			t.Errorf("no wrong worker shows that case %q can fail", c.name)
		}
	}
}

func TestRightWorker(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	database, _ := migrated(t)
	code, r, stderr := drive(t, database, []string{runtime(t, database, none), runtime(t, database, none)})
	g.Expect(code).To(Equal(exitPassed), stderr+r.table())
	g.Expect(r.Passed).To(Equal(len(cases())))
}
