package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/hack/oldtick"
)

const (
	// stepTimeout bounds the wait for what takes no time of its own, on a machine that is busy.
	stepTimeout = 30 * time.Second
	// replacementAge is the age at which the end of a worker is ordinary.
	replacementAge = 10 * time.Second
)

// play runs the acts and returns nil when everything was seen.
func (w *world) play(ctx context.Context) error {
	l := newLedger(w.n)
	err := w.prepare(ctx, 0)
	for _, act := range []func(context.Context, *ledger) error{w.actSamples, w.actSlowBoot, w.actReplacement, w.actCrash} {
		if err == nil {
			err = act(ctx, l)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(err, l.summary())
}

// actSamples: registered, pending, ready.
func (w *world) actSamples(ctx context.Context, l *ledger) error {
	w.n.heading("Act 1: the samples are applied")
	samples, err := w.editSamples()
	if err != nil {
		return err
	}
	w.n.say("config/samples, with the values edited that their comments name. Both functions boot for %v.", helloBoot)
	if err := w.kubectl(ctx, "apply", "-k", samples); err != nil {
		return err
	}
	objects := map[string]*supabase{hello: w.main, elsewhere: w.other}
	functions := map[string]string{hello: hello, elsewhere: elsewhereFunction}

	for name := range objects {
		if err := w.reached(ctx, name, 0, "is pending", stepTimeout, isPending); err != nil {
			return err
		}
	}
	if err := w.kubectl(ctx, "get", "wfn", "-o", "wide"); err != nil {
		return err
	}
	if err := w.kubectl(ctx, "wait", "--for=condition=Ready", "wfn", "--all", "--timeout=30s"); err != nil {
		return err
	}
	if err := w.kubectl(ctx, "get", "wfn"); err != nil {
		return err
	}

	allRegistered, allPending, allReady := true, true, true
	for name, s := range objects {
		object, err := w.history.newest(name)
		if err != nil {
			return err
		}
		phase, _, err := s.phase(ctx, functions[name])
		if err != nil {
			return err
		}
		came, err := s.since(ctx, functions[name], 0, 0)
		if err != nil {
			return err
		}
		versions, err := w.history.of(name, 0)
		if err != nil {
			return err
		}
		allRegistered = allRegistered && phase != "" &&
			condition(object, workersv1alpha1.ConditionRegistered).Status == "True"
		allPending = allPending && pendingWith(versions, came)
		allReady = allReady && phase == "ready" && isReady(object) && object.Status.Worker.Verified &&
			len(came.requests) == 1 && came.verified() && object.Status.Worker.ID == came.live[0].ID.String()
	}
	l.enter(registered, allRegistered, "%s in the operator's own database, %s in another one", hello, elsewhereFunction)
	l.enter(pending, allPending, "its status named the very invocation that its one request carried")
	l.enter(ready, allReady, "1 request, 1 verified worker each")
	return nil
}

// pendingWith says whether some version showed the object pending with the one invocation that was sent.
func pendingWith(versions []workersv1alpha1.WorkerFunction, came start) bool {
	for _, version := range versions {
		if isPending(version) && !isReady(version) && len(came.requests) > 0 &&
			version.Status.Invocation.ID == came.requests[0].InvocationID {
			return true
		}
	}
	return false
}

// actSlowBoot: one request, and beside it the old behaviour.
func (w *world) actSlowBoot(ctx context.Context, l *ledger) error {
	w.n.heading(fmt.Sprintf("Act 2: a boot of %v, a debounce of %v", slowBootTime, slowBootDebounce))
	w.n.say("A third database and its edge functions, without operator: the old cron job runs there, every %v.", oldInterval)
	config := boots(slowBootTime, 0)
	config.Kind = edgeruntime.Legacy014
	old, err := w.startSupabase(ctx, "old_supabase", edgeruntime.Options{Default: config})
	if err != nil {
		return err
	}
	if err := old.register(ctx, slowFunction, slowBootDebounce); err != nil {
		return err
	}
	w.n.say("The same function in both:")
	if err := w.kubectl(ctx, "apply", "-f", slowManifest); err != nil {
		return err
	}
	stop := w.runOldTick(ctx, old)
	defer stop()

	if err := w.await(ctx, "the debounce has passed", stepTimeout, func(ctx context.Context) (bool, error) {
		requests, err := w.main.functions.Requests(ctx, slowFunction, 0)
		return len(requests) > 0 && time.Since(requests[0].Arrived.Wall) > slowBootDebounce, err
	}); err != nil {
		return err
	}
	w.n.say("%v after the request, when the debounce has passed:", slowBootDebounce)
	if err := w.kubectl(ctx, "get", "wfn", slowFunction); err != nil {
		return err
	}
	if err := w.kubectl(ctx, "wait", "--for=condition=Ready", "wfn/"+slowFunction, "--timeout=30s"); err != nil {
		return err
	}
	if err := w.await(ctx, "all boots of the old cron job end", stepTimeout, func(ctx context.Context) (bool, error) {
		state, err := old.functions.State(ctx, slowFunction)
		return len(state.RunningWorkers()) >= 2 && booting(state) == 0, err
	}); err != nil {
		return err
	}
	stop()
	ours, err := w.main.since(ctx, slowFunction, 0, 0)
	if err != nil {
		return err
	}
	theirs, err := old.since(ctx, slowFunction, 0, 0)
	if err != nil {
		return err
	}
	w.timeline(ours, theirs)
	l.enter(slowBoot, len(ours.requests) == 1 && ours.verified(),
		"operator: %s, %s", count(len(ours.requests), "request"), count(len(ours.live), "live worker"))
	l.enter(oldTick, len(theirs.requests) >= 2 && len(theirs.live) >= 2,
		"old cron job: %s, %s", count(len(theirs.requests), "request"), count(len(theirs.live), "live worker"))
	return nil
}

// runOldTick runs the old cron job until the returned function, which may be called again, returns.
func (w *world) runOldTick(ctx context.Context, old *supabase) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	tick := oldtick.New(oldtick.Config{Database: old.pool, FunctionsURL: old.runtime.Addresses.FunctionsURL(), Key: old.key})
	go func() {
		defer close(ended)
		tick.Run(ctx, oldInterval)
	}()
	return func() { cancel(); <-ended }
}

func booting(state edgeruntime.FunctionState) (n int) {
	for _, r := range state.Runtimes {
		if r.State == edgeruntime.Booting {
			n++
		}
	}
	return n
}

// timeline prints both starts side by side, from the stand-ins' logs and the databases' rows.
func (w *world) timeline(ours, theirs start) {
	type event struct {
		at         time.Time
		ours, text string
	}
	var events []event
	for side, s := range map[string]start{"operator": ours, "old cron job": theirs} {
		for i, request := range s.requests {
			events = append(events, event{request.Arrived.Wall, side, fmt.Sprintf("request %d arrives", i+1)})
		}
		for i, worker := range s.workers {
			events = append(events, event{worker.StartedAt, side, fmt.Sprintf("worker %d registers", i+1)})
		}
	}
	sort.Slice(events, func(i, j int) bool { return events[i].at.Before(events[j].at) })
	w.n.say("What edge functions and databases recorded:")
	w.n.output(fmt.Sprintf("%9s%-22s %s", "", "operator", "old cron job"))
	for _, e := range events {
		left, right := e.text, ""
		if e.ours != "operator" {
			left, right = "", e.text
		}
		w.n.output(fmt.Sprintf("%5.1f s  %-22s %s", e.at.Sub(events[0].at).Seconds(), left, right))
	}
}

// count is n of something, in words.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
