package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/controllers/decision"
	"github.com/pgflow-operator/pgflow-operator/controllers/delivery"
	"github.com/pgflow-operator/pgflow-operator/controllers/observer"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// errOnHold is why a refusal is not written down.
var errOnHold = errors.New("the object is suspended, or lacks its Secrets")

// sending is an object's use of the dispatcher: what is delivered for it goes where aim says when it is sent.
type sending struct {
	database, function string

	mu   sync.Mutex
	aim  *aim   // nil: on hold, nothing is sent and nothing dismissed
	with string // the fingerprint of what the last attempt used; empty: there was none
}

// aim is an endpoint with its key.
type aim struct {
	delivery.Target
	fingerprint string // tells aims apart
}

// point sets what the next attempt uses, nil for none, and tells whether a delivery that waits should look at it at once.
func (s *sending) point(at *aim) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = at != nil && (s.aim == nil || s.aim.fingerprint != at.fingerprint)
	s.aim = at
	return news
}

// next returns what an attempt that begins now uses; false: there must be none.
func (s *sending) next() (delivery.Target, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aim == nil {
		return delivery.Target{}, false
	}
	s.with = s.aim.fingerprint
	return s.aim.Target, true
}

func (s *sending) onHold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aim == nil
}

// used tells whether the last attempt went there.
func (s *sending) used(at *aim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.with == at.fingerprint
}

// aim returns where the target's invocations go.
func (t *target) aim() *aim {
	sum := sha256.Sum256([]byte(t.Endpoint.String() + "\x00" + t.Key.Reveal()))
	return &aim{delivery.Target{Endpoint: t.Endpoint, Key: t.Key}, hex.EncodeToString(sum[:])}
}

// sendingOf returns an object's use of the dispatcher; nil: nothing was delivered for it.
func (r *WorkerFunctionReconciler) sendingOf(object types.NamespacedName) *sending {
	if s, ok := r.sent.Load(object); ok {
		return s.(*sending)
	}
	return nil
}

// redirect has what is being delivered for an object go where it stands for now: to a corrected endpoint, or nowhere while
// the object is suspended. What was for another registration is abandoned.
func (r *WorkerFunctionReconciler) redirect(obj *workersv1alpha1.WorkerFunction, t *target) {
	object := client.ObjectKeyFromObject(obj)
	s := r.sendingOf(object)
	switch {
	case s == nil:
	case s.database != t.Connection.Identity(), s.function != t.function:
		r.abandon(object)
	case obj.Spec.Suspend:
		s.point(nil)
	default:
		if s.point(t.aim()) {
			r.Dispatcher.Hurry(object, s.database, s.function)
		}
	}
}

// hold keeps what is being delivered for an object until it can be redirected.
func (r *WorkerFunctionReconciler) hold(object types.NamespacedName) {
	if s := r.sendingOf(object); s != nil {
		s.point(nil)
	}
}

// abandon ends what is being delivered for an object.
func (r *WorkerFunctionReconciler) abandon(object types.NamespacedName) {
	if s, ok := r.sent.LoadAndDelete(object); ok {
		s := s.(*sending)
		r.Dispatcher.Forget(object, s.database, s.function)
	}
}

// deliver hands an invocation to the dispatcher. since is a time by the database's clock at which it was pending, not much
// before now. The object may change while it is on its way, so nothing but the id is fixed.
func (r *WorkerFunctionReconciler) deliver(obj *workersv1alpha1.WorkerFunction, t *target, id uuid.UUID, since time.Time, expiresIn time.Duration) {
	object := client.ObjectKeyFromObject(obj)
	s := r.sendingOf(object)
	if s == nil {
		s = &sending{database: t.Connection.Identity(), function: t.function}
		r.sent.Store(object, s)
	}
	s.point(t.aim())
	seen := func() (observer.Observation, bool) {
		database, ok := r.Databases.Held(object)
		if !ok {
			return observer.Observation{}, false
		}
		return database.Lookup(s.function), true
	}
	r.Dispatcher.Deliver(delivery.Request{
		Object:       object,
		Database:     s.database,
		Function:     s.function,
		InvocationID: id,
		ExpiresIn:    expiresIn,
		Target:       s.next,
		Wanted: func() bool {
			o, ok := seen()
			return !ok || wanted(o, id, since)
		},
		Resend: func() bool {
			o, ok := seen()
			return ok && mayResend(o, id, since)
		},
		Dismiss: func(ctx context.Context, reason string) error {
			database, ok := r.Databases.Held(object) // the password may be another than when it was sent
			if !ok || s.onHold() {
				return errOnHold
			}
			_, err := database.Store().Dismiss(ctx, s.function, id, reason)
			database.Refresh(s.function)
			return err
		},
		Progress: func(delivery.Result) { r.Wake.Object(object) },
		Done: func(result delivery.Result) {
			// Whatever HTTP said, the database counts.
			if database, ok := r.Databases.Held(object); ok {
				database.Refresh(s.function)
			}
			if result.Outcome != delivery.Delivered {
				r.Wake.Object(object)
			}
		},
	})
}

// wanted tells whether an id may still start a worker, for all that is known. What is known may be from before the id was
// reserved, since the answer of the reservation comes before the observation: then it is wanted.
func wanted(o observer.Observation, id uuid.UUID, since time.Time) bool {
	s := o.State
	switch {
	case !o.Read:
		return true
	case s == nil, s.LastInvocationID == id:
		return false
	case s.Invocation != nil && s.Invocation.ID == id:
		return s.Phase == pgstate.PhasePending
	}
	// Neither current nor the last: from before, or long over. The call that reserved it ended within its deadline.
	return o.ReadAt.Before(since.Add(databaseDeadline))
}

// mayResend tells whether an id whose delivery is uncertain may be sent again.
func mayResend(o observer.Observation, id uuid.UUID, since time.Time) bool {
	return o.State != nil && o.State.TakesPart && wanted(o, id, since)
}

// deliveryOf returns what this process knows of sending an invocation; nil: it did not send it.
func (r *WorkerFunctionReconciler) deliveryOf(t *target, id uuid.UUID) *decision.Delivery {
	if id == uuid.Nil {
		return nil
	}
	result, known := r.Dispatcher.Knows(t.Connection.Identity(), t.function, id)
	if !known {
		return nil
	}
	return &decision.Delivery{InvocationID: id, HTTPStatus: result.Status, Message: result.Message}
}
