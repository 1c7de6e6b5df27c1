package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// before is the point from which an act counts.
type before struct {
	request  int64 // the newest in the log
	workers  int
	versions int // of the object
}

func (w *world) now(ctx context.Context, name string) (before, error) {
	requests, err := w.main.functions.Summary(ctx)
	if err != nil {
		return before{}, err
	}
	workers, err := w.main.workers(ctx, name)
	if err != nil {
		return before{}, err
	}
	versions, err := w.history.of(name, 0)
	return before{requests.LastSeq, len(workers), len(versions)}, err
}

// stopWorker has a function's runtimes told to end, as their wall clock does: the worker marks itself stopped.
func (w *world) stopWorker(ctx context.Context, name string) (edgeruntime.Stopped, error) {
	stopped, err := w.main.functions.Stop(ctx, name)
	for _, worker := range stopped.Workers {
		w.n.say("Worker %v of %s has ended.", worker, name)
	}
	return stopped, err
}

// actReplacement: a worker ends and is replaced.
func (w *world) actReplacement(ctx context.Context, l *ledger) error {
	w.n.heading("Act 3: a worker ends, as it does every minute on a self-hosted Supabase")
	// Until then its end is no ordinary one.
	if err := w.await(ctx, fmt.Sprintf("the worker of %s is %v old", hello, replacementAge), 2*replacementAge,
		func(ctx context.Context) (bool, error) {
			workers, err := w.main.workers(ctx, hello)
			return len(workers) > 0 && time.Since(workers[len(workers)-1].StartedAt) > replacementAge, err
		}); err != nil {
		return err
	}
	from, err := w.now(ctx, hello)
	if err != nil {
		return err
	}
	stopped, err := w.stopWorker(ctx, hello)
	if err != nil {
		return err
	}
	if err := w.reached(ctx, hello, from.versions, "is pending", stepTimeout, isPending); err != nil {
		return err
	}
	if err := w.kubectl(ctx, "get", "wfn", hello); err != nil {
		return err
	}
	if err := w.reached(ctx, hello, from.versions, "is ready again", stepTimeout, func(object workersv1alpha1.WorkerFunction) bool {
		return isReady(object) && len(stopped.Workers) == 1 && object.Status.Worker.ID != stopped.Workers[0].String()
	}); err != nil {
		return err
	}
	if err := w.kubectl(ctx, "get", "wfn", hello); err != nil {
		return err
	}
	came, err := w.main.since(ctx, hello, from.request, from.workers)
	if err != nil {
		return err
	}
	versions, err := w.history.of(hello, from.versions)
	if err != nil {
		return err
	}
	alwaysReady, replacing := true, false
	for _, version := range versions {
		condition := condition(version, workersv1alpha1.ConditionReady)
		alwaysReady = alwaysReady && condition.Status == "True"
		replacing = replacing || condition.Reason == workersv1alpha1.ReasonReplacing
	}
	delay := "no request"
	if len(came.requests) > 0 {
		delay = time.Duration(came.requests[0].Arrived.Mono - stopped.From.Mono).Round(time.Millisecond).String()
	}
	l.enter(replaced, len(came.requests) == 1 && came.verified() && alwaysReady && replacing,
		"%s, %v after the end was asked for; %s, Ready in all", count(len(came.requests), "request"), delay, count(len(versions), "status write"))
	return nil
}

// actCrash: the operator is killed while a start is under way.
func (w *world) actCrash(ctx context.Context, l *ledger) error {
	w.n.heading("Act 4: the operator is killed in mid-start")
	from, err := w.now(ctx, slowFunction)
	if err != nil {
		return err
	}
	if _, err := w.stopWorker(ctx, slowFunction); err != nil {
		return err
	}
	if err := w.await(ctx, "the request for a new worker arrives", stepTimeout, func(ctx context.Context) (bool, error) {
		requests, err := w.main.functions.Requests(ctx, slowFunction, from.request)
		return len(requests) > 0, err
	}); err != nil {
		return err
	}
	w.n.say("The request for the next one has arrived; its runtime boots for %v.", slowBootTime)
	if err := w.reached(ctx, slowFunction, from.versions, "is pending", stepTimeout, isPending); err != nil {
		return err
	}
	if err := w.kubectl(ctx, "get", "wfn", slowFunction); err != nil {
		return err
	}
	w.n.command("kill", "-KILL", strconv.Itoa(w.operator.pid()))
	if err := w.operator.crash(); err != nil {
		return err
	}
	phase, invocation, err := w.main.phase(ctx, slowFunction)
	if err != nil {
		return err
	}
	came, err := w.main.since(ctx, slowFunction, from.request, from.workers)
	if err != nil {
		return err
	}
	l.enter(killed, phase == "pending" && invocation != uuid.Nil && len(came.workers) == 0 && came.invocations()[0] == invocation.String(),
		"no operator, no worker, invocation %v is pending in PostgreSQL", invocation)

	if err := w.startOperator(); err != nil {
		return err
	}
	if err := w.reached(ctx, slowFunction, from.versions, "is ready again", stepTimeout, func(object workersv1alpha1.WorkerFunction) bool {
		return isReady(object) && condition(object, workersv1alpha1.ConditionInvocationPending).Status != "True" &&
			object.Status.LastOutcome != nil && object.Status.LastOutcome.InvocationID == invocation.String()
	}); err != nil {
		return err
	}
	if err := w.await(ctx, "every request is answered or given up", stepTimeout, func(ctx context.Context) (bool, error) {
		state, err := w.main.functions.State(ctx, slowFunction)
		if err != nil || booting(state) > 0 {
			return false, err
		}
		requests, err := w.main.functions.Requests(ctx, slowFunction, from.request)
		for _, request := range requests {
			if request.Outcome == "" {
				return false, err
			}
		}
		return true, err
	}); err != nil {
		return err
	}
	if err := w.kubectl(ctx, "get", "wfn", "-o", "wide"); err != nil {
		return err
	}
	if came, err = w.main.since(ctx, slowFunction, from.request, from.workers); err != nil {
		return err
	}
	again := ""
	if len(came.requests) > 1 {
		again = ", sent again with the same invocation"
	}
	l.enter(recovered, came.verified() && came.invocations()[0] == invocation.String(),
		"%s%s; %s", count(len(came.requests), "request"), again, count(len(came.live), "live worker"))
	return nil
}
