package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// cases in the order in which they are run: each begins with a function that has never been started.
func cases() []testCase {
	return []testCase{
		{"start", "a current id starts a worker, whose loop runs", start},
		{"two-runtimes", "of two runtimes that get one id, one starts", twoRuntimes},
		{"one-runtime", "copies of a request in one runtime share one start", oneRuntime},
		{"repeated", "an id that comes again is acknowledged", repeated},
		{"healthy", "a current id is acknowledged where a healthy worker is", healthy},
		{"busy-loop", "a loop that is too busy to beat is not doubled", busyLoop},
		{"late", "an id that has expired starts nothing and harms no later one", late},
		{"used", "the id of a worker that is gone starts nothing", used},
		{"superseded", "an id that another worker made void starts nothing", superseded},
		{"foreign", "another function's id starts nothing", foreign},
		{"unknown", "an id that nobody reserved starts nothing", unknown},
		{"malformed", "a header that is no id starts nothing, nor counts as none", malformed},
		{"switched-off", "an id starts nothing once the function is switched off", switchedOff},
		{"slow-boot", "an id that expires during the boot is not admitted, a later one is", slowBoot},
		{"sender-gone", "a start goes on when its sender has gone", senderGone},
		{"lock-timeout", "who meets a lock timeout asks again", lockTimeout},
		{"failed-start", "a failed start is dismissed, and a later id served", failedStart},
		{"ended", "a runtime whose worker was ended serves a later id", ended},
		{"wrong-key", "requests without the key change nothing", wrongKey},
		{"no-id", "a request without an id reserves for itself", noID},
		{"unregistered", "without a registration, such a request makes one", unregistered},
		// The last: some drivers answer a later statement with the loss of a connection that they have replaced since.
		{"lost-answer", "whose answer was lost while being admitted asks again", lostAnswer},
	}
}

func start(t *trial) {
	id := t.reserve()
	a := t.post(0, withID(id))
	t.accepted("answer", a, id)
	t.expect("function it names", t.function, a.FunctionName)
	if !t.failedAlready() {
		t.beats(a.WorkerID)
	}
}

func repeated(t *trial) {
	id := t.reserve()
	first := t.post(0, withID(id))
	t.accepted("answer", first, id)
	for range 2 {
		t.acknowledged("answer to the same again", t.post(0, withID(id)), first.WorkerID)
	}
	t.admitted(first, id)
}

func healthy(t *trial) {
	first := t.serves(0, "answer")
	for runtime := range t.endpoints {
		id := t.reserveBeside()
		label := fmt.Sprintf("answer of runtime %d to a current id", runtime+1)
		t.acknowledged(label, t.post(runtime, withID(id)), first.WorkerID)
		t.expect("that id", "none, the last was acknowledged", t.current(t.function, map[uuid.UUID]string{id: "still pending"}))
		t.admitted(first, uuid.Nil)
	}
}

func busyLoop(t *trial) {
	first := t.serves(0, "answer")
	if t.failedAlready() {
		return
	}
	t.undo = append(t.undo, t.withdraw)
	t.step(func() error { return t.silenceWorkers(t.ctx) })
	id := t.reserve()
	t.acknowledged("answer of the busy runtime", t.post(0, withID(id)), first.WorkerID)
	t.admitted(first, uuid.Nil)
}

func late(t *trial) {
	id := t.reserve()
	t.expire(id)
	t.expect("answer to an expired id", "409 rejected expired", t.post(0, withID(id)).String())
	next := t.reserve()
	t.expect("answer after a later one was reserved", "409 rejected expired", t.post(0, withID(id)).String())
	t.untouched(next)
	if !t.failedAlready() {
		t.accepted("answer to the later one", t.post(0, withID(next)), next)
	}
}

func used(t *trial) {
	id := t.reserve()
	t.accepted("answer", t.post(0, withID(id)), id)
	t.end(stopSQL)
	next := t.reserve()
	t.expect("answer once its worker is gone", "409 rejected taken", t.post(0, withID(id)).String())
	t.untouched(next)
}

func superseded(t *trial) {
	id := t.reserve()
	other := uuid.New()
	t.known = append(t.known, other)
	t.exec(plantSQL, other, t.function)
	t.exec(stopSQL, t.function)
	next := t.reserve()
	t.expect("answer", "409 rejected superseded", t.post(0, withID(id)).String())
	t.untouched(next)
}

func foreign(t *trial) {
	other := "conformance-" + uuid.NewString()
	t.undo = append(t.undo, func(ctx context.Context) error {
		if err := t.kit.exec(ctx, deleteSQL, other, []uuid.UUID{}); err != nil {
			return err
		}
		return t.kit.exec(ctx, removeRegistrationSQL, other)
	})
	t.exec(resetSQL, other)
	theirs := t.reserveIn(other, t.pool)
	ours := t.reserve()
	t.expect("answer to another function's id", "409 rejected unknown", t.post(0, withID(theirs)).String())
	t.untouched(ours)
	t.expect("their invocation", "still pending", t.current(other, map[uuid.UUID]string{theirs: "still pending"}))
	t.expect("their workers", "0", fmt.Sprint(len(t.workers(other))))
}

func unknown(t *trial) {
	t.expect("answer to an id that nobody reserved", "409 rejected unknown", t.post(0, withID(uuid.New())).String())
	t.expect("answer to the nil id", "409 rejected unknown", t.post(0, withID(uuid.Nil)).String())
	t.untouched(uuid.Nil)
}

func malformed(t *trial) {
	id := uuid.NewString()
	for _, text := range []string{"", "x", "null", id[1:], id + "0", strings.Replace(id, id[:1], "g", 1)} {
		a := t.post(0, headers{invocationHeader: {text}})
		t.expect(fmt.Sprintf("answer to %q", text), "409 rejected unknown", a.String())
	}
	t.untouched(uuid.Nil)
}

func switchedOff(t *trial) {
	id := t.reserve()
	t.step(func() error {
		_, err := t.store.Disable(t.ctx, t.function)
		return err
	})
	t.expect("answer while disabled", "409 rejected disabled", t.post(0, withID(id)).String())
	t.untouchedAfter("dismissed, with a reason")
}

// untouchedAfter checks that nothing was started, and how the last invocation ended.
func (t *trial) untouchedAfter(ended string) {
	t.expect("current invocation", "none, the last was "+ended, t.current(t.function, nil))
	t.expect("workers started", "0", fmt.Sprint(len(t.started())))
}

func wrongKey(t *trial) {
	id := t.reserve()
	for _, c := range []struct {
		label string
		value []string
	}{
		{"no key", nil},
		{"a wrong key", []string{"Bearer " + t.key + "x"}},
		{"the key without Bearer", []string{t.key}},
	} {
		special := withID(id)
		special["Authorization"] = c.value
		t.expect("answer to "+c.label, "401", t.post(0, special).String())
	}
	t.untouched(id)
	if !t.failedAlready() {
		t.accepted("answer to the right key", t.post(0, withID(id)), id)
	}
}
