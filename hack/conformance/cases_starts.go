package main

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func failedStart(t *trial) {
	id := t.reserve()
	t.undo = append(t.undo, t.withdraw)
	t.step(func() error { return t.refuseWorkers(t.ctx) })
	t.expect("answer while the database refuses the row", "500", t.post(0, withID(id)).String())
	t.untouchedAfter("dismissed, with a reason")
	t.step(func() error { return t.withdraw(t.ctx) })
	t.serves(0, "answer to a later id")
}

func ended(t *trial) {
	t.serves(0, "answer")
	for _, how := range []struct {
		what string
		end  func()
	}{
		{"deprecated", func() { t.end(deprecateSQL) }},
		{"marked stopped", func() { t.end(stopSQL) }},
		{"deleted", func() { t.end(deleteSQL, t.before) }},
	} {
		if t.failedAlready() {
			return
		}
		how.end()
		t.serves(0, "answer to a later id, its row "+how.what)
	}
}

func noID(t *trial) {
	pending := t.reserve()
	t.expect("answer while an id of others is pending", "409 rejected pending", t.post(0, nil).String())
	t.untouched(pending)
	t.exec(throttleSQL, t.function)
	t.expect("answer while throttled", "409 rejected throttled", t.post(0, nil).String())
	t.step(func() error {
		_, err := t.store.Disable(t.ctx, t.function)
		return err
	})
	t.expect("answer while disabled", "409 rejected disabled", t.post(0, nil).String())
	t.untouched(uuid.Nil)
	if t.failedAlready() {
		return
	}
	t.exec(resetSQL, t.function)
	first := t.post(0, nil)
	t.accepted("answer when it is due", first, uuid.Nil)
	t.acknowledged("answer to the same again", t.post(0, nil), first.WorkerID)
	t.admitted(first, uuid.Nil)
}

func unregistered(t *trial) {
	t.exec(removeRegistrationSQL, t.function)
	a := t.post(0, nil)
	var registered bool
	t.step(func() error {
		snapshot, err := t.store.StatesOf(t.ctx, []string{t.function})
		registered = slices.ContainsFunc(snapshot.States, func(s pgstate.State) bool { return s.FunctionName == t.function })
		return err
	})
	if a.String() == "409 rejected throttled" {
		// In some versions of pgflow a new registration counts as invoked.
		t.expect("answer", "409 rejected throttled", a.String())
	} else {
		t.accepted("answer", a, uuid.Nil)
	}
	t.expect("registered", "true", fmt.Sprint(registered))
}
