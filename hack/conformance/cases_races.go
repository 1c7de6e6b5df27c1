package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// meets is how long the kit waits for both of two runtimes to want to be admitted. It is below the lock timeout of the
// worker's statements, 5 s.
const meets = 3 * time.Second

func twoRuntimes(t *trial) {
	if len(t.endpoints) < 2 {
		t.step(func() error {
			return &skip{"give --endpoint a second time: another runtime of the function, which shares only the database"}
		})
		return
	}
	id := t.reserve()
	g, requests := t.held(2, func() []*sent { return []*sent{t.send(0, withID(id)), t.send(1, withID(id))} })
	t.step(func() error {
		ctx, cancel := context.WithTimeout(t.ctx, meets)
		defer cancel()
		_, err := g.awaitWaiters(ctx, 2)
		if t.ctx.Err() == nil && ctx.Err() != nil {
			err = nil // the boots differ by more than that; one of them is late then
		}
		return err
	})
	t.open(g)
	var answers []answer
	for _, s := range requests {
		answers = append(answers, t.answerOf(s))
	}
	if t.err != nil {
		return
	}
	winner, loser := answers[0], 1
	if winner.Handshake != "accepted" {
		winner, loser = answers[1], 0
	}
	words := []string{answers[0].String(), answers[1].String()}
	slices.Sort(words)
	t.expect("answers", "200 running acknowledged + 200 started accepted", words[0]+" + "+words[1])
	t.expect("worker that the loser names", winner.WorkerID, answers[loser].WorkerID)
	t.admitted(winner, id)
	if !t.failedAlready() {
		t.end(deprecateSQL)
		t.serves(loser, "answer of the loser to a later id")
	}
}

func oneRuntime(t *trial) {
	const copies = 4
	id := t.reserve()
	g, requests := t.held(1, func() (requests []*sent) {
		for range copies {
			requests = append(requests, t.send(0, withID(id)))
		}
		return requests
	})
	t.open(g)
	count := map[string]int{}
	var winner answer
	for _, s := range requests {
		a := t.answerOf(s)
		count[a.String()]++
		if a.Handshake == "accepted" {
			winner = a
		}
	}
	t.expect("answers", fmt.Sprint(map[string]int{"200 started accepted": 1, "200 running acknowledged": copies - 1}),
		fmt.Sprint(count))
	t.admitted(winner, id)
}

func slowBoot(t *trial) {
	id := t.reserve()
	g, requests := t.held(1, func() []*sent { return []*sent{t.send(0, withID(id))} })
	var next uuid.UUID
	t.step(func() error {
		if _, err := g.tx.Exec(t.ctx, expireSQL, t.function, id); err != nil {
			return pgstate.TranslateError("expire the invocation", err)
		}
		next = t.reserveIn(t.function, g.tx)
		return t.err
	})
	t.open(g)
	if t.err != nil {
		return
	}
	t.expect("answer", "409 rejected expired", t.answerOf(requests[0]).String())
	t.untouched(next)
	if !t.failedAlready() {
		t.accepted("answer to a later id", t.post(0, withID(next)), next)
	}
}

func senderGone(t *trial) {
	id := t.reserve()
	g, requests := t.held(1, func() []*sent { return []*sent{t.send(0, withID(id))} })
	if t.err != nil {
		return
	}
	t.step(func() error {
		_, err := g.awaitWaiters(t.ctx, 1)
		return err
	})
	requests[0].cut()
	t.answerOf(requests[0])
	t.step(func() error { // a start that ends with its sender is given the time to
		ctx, cancel := context.WithTimeout(t.ctx, notices)
		defer cancel()
		err := t.until(ctx, func() (bool, error) {
			waiters, err := g.waiters(t.ctx)
			return len(waiters) == 0, err
		})
		if ctx.Err() != nil {
			err = context.Cause(t.ctx)
		}
		return err
	})
	t.open(g)
	again := t.post(0, withID(id))
	seen := again.String()
	if seen == "200 running acknowledged" {
		seen = "200 started accepted" // the first request's start was quicker
	}
	t.expect("answer to the same id, sent again", "200 started accepted", seen)
	t.admitted(again, id)
}

func lockTimeout(t *trial) {
	id := t.reserve()
	g := t.newGate()
	t.step(func() error { return g.hold(t.ctx) })
	request := t.send(0, withID(id))
	t.step(func() error {
		first, err := g.awaitWaiters(t.ctx, 1)
		if err != nil {
			return err
		}
		return t.until(t.ctx, func() (bool, error) { // it may wait again by then
			waiters, err := g.waiters(t.ctx)
			waits := slices.ContainsFunc(waiters, func(w waiter) bool { return w.Since <= first[0].Since+1 })
			return !waits, err
		})
	})
	t.open(g)
	t.accepted("answer", t.answerOf(request), id)
}
