package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers/decision"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

const (
	// databaseDeadline bounds one call of the database. It is longer than the operations' own lock_timeout of 5 s.
	databaseDeadline = 10 * time.Second
	// askAgain is when a call that a lock or an outage prevented is made again. The observer notices the end of an
	// outage by itself, this is for what only one call met.
	askAgain = time.Second
	// turnAgain is when a call is tried again at the latest that would have made too many at once to one database: its
	// turn is told, and may be lost to another.
	turnAgain = time.Second
	// checkAgain is when something is tried again that a person has to mend where nothing tells that they did.
	checkAgain = 30 * time.Second
)

// outcome is what an action came to.
type outcome struct {
	// changed: the database changed or is yet to be asked, so that a new observation follows and this one is not worth
	// showing.
	changed bool
	// again is when to come back without being woken; 0: not.
	again time.Duration
}

// act does what was decided. What keeps it from doing so goes into o.Problem, to be shown.
func (r *WorkerFunctionReconciler) act(ctx context.Context, obj *workersv1alpha1.WorkerFunction, t *target, action decision.Action, o *decision.Observed) outcome {
	switch action.Kind {
	case decision.Wait:
		return outcome{}
	case decision.Send:
		r.deliver(obj, t, o.State.Invocation.ID, o.Now, action.ExpiresIn)
		return outcome{}
	}
	// Never waited for: a database that does not answer would soon hold every reconcile, also those of other databases.
	done, ok := t.database.TryWrite(client.ObjectKeyFromObject(obj))
	if !ok {
		return outcome{changed: true, again: turnAgain}
	}
	defer done()
	ctx, cancel := context.WithTimeoutCause(ctx, databaseDeadline,
		fmt.Errorf("the database did not answer within %v", databaseDeadline))
	defer cancel()

	store := t.database.Store()
	defer t.database.Refresh(t.function) // where nothing is notified
	switch action.Kind {
	case decision.CreateRegistration:
		if _, err := store.CreateRegistration(ctx, t.function, action.Write); err != nil {
			return r.failed(ctx, o, action, err)
		}
		return outcome{changed: true}
	case decision.ApplySpec:
		if _, err := store.UpdateRegistration(ctx, t.function, action.Write); err != nil {
			return r.failed(ctx, o, action, err)
		}
		return outcome{changed: true}
	case decision.ClearThrottle:
		if _, err := store.ClearThrottle(ctx, t.function); err != nil {
			return r.failed(ctx, o, action, err)
		}
		return outcome{changed: true}
	case decision.Reserve:
		reservation, err := store.Reserve(ctx, t.function)
		if err != nil {
			return r.failed(ctx, o, action, err)
		}
		switch reservation.Decision {
		case pgstate.DecisionReserved:
			since := reservation.ExpiresAt.Add(-reservation.ExpiresIn)
			r.deliver(obj, t, reservation.InvocationID, since, reservation.ExpiresIn)
		case pgstate.DecisionThrottled:
			if o.State.Invocation == nil { // nothing was closed: the clocks were a moment apart, or the state is an old one
				return outcome{changed: true, again: max(reservation.RetryAt.Sub(o.Now), time.Millisecond)}
			}
		}
		return outcome{changed: true}
	}
	return outcome{}
}

// failed turns an error of the database into what is shown and when to come back.
func (r *WorkerFunctionReconciler) failed(ctx context.Context, o *decision.Observed, action decision.Action, err error) outcome {
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	switch {
	case errors.Is(err, pgstate.ErrLockTimeout), errors.Is(err, pgstate.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		ctrl.LoggerFrom(ctx).V(1).Info("The database did not do it; asking again", "action", action.Kind, "error", err.Error())
		return outcome{again: askAgain} // what was observed is shown meanwhile
	case errors.Is(err, context.Canceled): // the operator ends
		return outcome{changed: true}
	}
	o.Problem = typedProblem(err)
	if o.Problem == nil {
		o.Problem = &decision.Problem{Kind: decision.ProblemReconciling, Reason: workersv1alpha1.ReasonSpecNotApplied, Message: oneLine(err)}
		if action.Kind == decision.Reserve || action.Kind == decision.ClearThrottle {
			o.Problem.Reason = workersv1alpha1.ReasonRetrying
		}
	}
	o.Problem.Seen = true
	return outcome{again: checkAgain}
}
