package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers/credentials"
	"github.com/pgflow-operator/pgflow-operator/controllers/decision"
	"github.com/pgflow-operator/pgflow-operator/controllers/observer"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// observe fills in o what is known for obj, and returns what obj stands for; nil together with o.Problem. A result ends
// the reconcile: nothing new is known, so nothing is to be done or shown until there is. The error is the API server's,
// and temporary.
func (r *WorkerFunctionReconciler) observe(ctx context.Context, obj *workersv1alpha1.WorkerFunction, o *decision.Observed) (*target, *ctrl.Result, error) {
	object := client.ObjectKeyFromObject(obj)
	resolved, err := r.Resolver.Resolve(ctx, obj)
	var problem *credentials.Problem
	switch {
	case errors.As(err, &problem):
		r.hold(object)
		r.Databases.Release(object)
		o.Problem = &decision.Problem{Reason: problem.Reason, Message: problem.Message}
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}

	claims, err := r.claims(ctx, obj, resolved.Connection.Identity())
	if err != nil {
		return nil, nil, err
	}
	if older := claims.before(obj); older != nil {
		r.abandon(object)
		r.Databases.Release(object)
		o.Problem = &decision.Problem{Reason: workersv1alpha1.ReasonDuplicate, Message: fmt.Sprintf(
			"WorkerFunction %s/%s is older and stands for the same registration: delete one of them; this one changes nothing, and takes over when the other is gone",
			older.Namespace, older.Name)}
		return nil, nil, nil
	}

	t := &target{function: obj.FunctionName(), Resolved: resolved}
	r.redirect(obj, t)
	t.database, err = r.Databases.Acquire(object, resolved.Connection, t.function)
	if err != nil {
		return nil, nil, err
	}
	seen := t.database.Lookup(t.function)
	isNew := saysNothing(o.Previous)
	if seen.Err != nil {
		o.Problem = databaseProblem(seen, o.Previous)
		switch {
		case o.Problem == nil && !isNew:
			// A short outage is nobody's business. Its end wakes nobody whose registration did not change.
			return nil, &ctrl.Result{RequeueAfter: askAgain}, nil
		case o.Problem == nil:
			return t, nil, nil
		}
	}
	if !seen.Read && !isNew && o.Problem == nil {
		return nil, &ctrl.Result{}, nil // the observer wakes all when it has read
	}
	o.Read, o.State, o.Now, o.Endpoint = seen.Read, seen.State, seen.Now, resolved.Endpoint.String()
	if s := seen.State; s != nil {
		if s.Invocation != nil {
			o.Delivery = r.deliveryOf(t, s.Invocation.ID)
		}
		o.LastDelivery = r.deliveryOf(t, s.LastInvocationID)
		sent := r.sendingOf(object)
		o.CredentialsChanged = sent == nil || !sent.used(t.aim()) // an operator that restarts may have other flags
	}
	return t, nil, nil
}

// saysNothing tells whether a status says nothing of the database: none was written yet, or a problem that is over kept the
// operator from looking. Its object is told at once that the database is being looked at.
func saysNothing(s workersv1alpha1.WorkerFunctionStatus) bool {
	c := meta.FindStatusCondition(s.Conditions, workersv1alpha1.ConditionRegistered)
	return c == nil || c.Status == metav1.ConditionUnknown
}

// databaseProblem says why a database cannot be read; nil: it has not been so for long enough to be worth saying.
func databaseProblem(seen observer.Observation, previous workersv1alpha1.WorkerFunctionStatus) *decision.Problem {
	if p := typedProblem(seen.Err); p != nil {
		return p
	}
	if !seen.Unavailable {
		return nil
	}
	p := &decision.Problem{
		Kind:    decision.ProblemUnknown,
		Reason:  workersv1alpha1.ReasonDatabaseUnavailable,
		Message: "the database has not answered for 30s or longer: " + oneLine(seen.Err),
	}
	// The error's wording may change from try to try; the first one is shown, so that an outage is written once.
	if c := meta.FindStatusCondition(previous.Conditions, workersv1alpha1.ConditionReady); c != nil && c.Reason == p.Reason {
		p.Message = c.Message
	}
	return p
}

// typedProblem translates what a person must mend in the database; nil: it is something else.
func typedProblem(err error) *decision.Problem {
	for _, known := range []struct {
		is     error
		reason string
		do     string
	}{
		{pgstate.ErrSchemaMissing, workersv1alpha1.ReasonSchemaMissing, ""},
		{pgstate.ErrAuthentication, workersv1alpha1.ReasonDatabaseAuthenticationFailed, "correct user and password in the database Secret: "},
		{pgstate.ErrPermission, workersv1alpha1.ReasonDatabasePermissionDenied, "grant the role what it lacks: "},
		{pgstate.ErrReadOnly, workersv1alpha1.ReasonDatabaseReadOnly, "name the primary in the database Secret: "},
		{pgstate.ErrNoStartMode, workersv1alpha1.ReasonSpecNotApplied, ""},
	} {
		if errors.Is(err, known.is) {
			return &decision.Problem{Reason: known.reason, Message: known.do + oneLine(err)}
		}
	}
	return nil
}

// oneLine is an error on one line, which is all that kubectl shows of a message, cut to what a status can hold.
func oneLine(err error) string {
	const limit = 1024
	line := strings.Join(strings.Fields(err.Error()), " ")
	if len(line) > limit {
		line = strings.ToValidUTF8(line[:limit], "") + "..."
	}
	return line
}

// claims are the objects that stand for one registration, oldest first.
type claims []workersv1alpha1.WorkerFunction

// claims lists who stands for obj's registration. Objects whose own database cannot be told stand for none.
func (r *WorkerFunctionReconciler) claims(ctx context.Context, obj *workersv1alpha1.WorkerFunction, identity string) (claims, error) {
	var list workersv1alpha1.WorkerFunctionList
	if err := r.Client.List(ctx, &list, client.MatchingFields{indexFunction: obj.FunctionName()}); err != nil {
		return nil, err
	}
	var all claims
	for _, other := range list.Items {
		if other.UID != obj.UID {
			connection, err := r.Resolver.ResolveDatabase(ctx, &other)
			if _, ok := errors.AsType[*credentials.Problem](err); ok {
				continue
			}
			if err != nil {
				return nil, err
			}
			if connection.Identity() != identity {
				continue
			}
		}
		all = append(all, other)
	}
	slices.SortFunc(all, func(a, b workersv1alpha1.WorkerFunction) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return slices.Compare([]byte(a.UID), []byte(b.UID)) // arbitrary, and the same for all
	})
	return all, nil
}

// before returns the oldest object that is older than obj; nil: obj is the one that acts.
func (c claims) before(obj *workersv1alpha1.WorkerFunction) *workersv1alpha1.WorkerFunction {
	if len(c) == 0 || c[0].UID == obj.UID {
		return nil
	}
	return &c[0]
}

// heirs tells whether an object other than obj will stand for the registration when obj is gone.
func (c claims) heirs(obj *workersv1alpha1.WorkerFunction) bool {
	return slices.ContainsFunc(c, func(other workersv1alpha1.WorkerFunction) bool {
		return other.UID != obj.UID && other.DeletionTimestamp.IsZero()
	})
}
