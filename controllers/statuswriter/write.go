package statuswriter

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// next writes the status of one object and reports false when the queue has
// ended.
func (w *Writer) next(ctx context.Context) bool {
	key, ended := w.queue.Get()
	if ended {
		return false
	}
	defer w.queue.Done(key)
	// Before anything is taken off the queue, so that a status which waits for
	// its turn can still be replaced. It fails when the time for the last writes
	// is over.
	if w.limit.Wait(ctx) != nil {
		return true
	}
	o, status := w.takeOff(key)
	if status == nil {
		return true
	}
	answer, err := w.write(ctx, key, o.uid, status)
	again := w.land(key, o, answer, err)
	switch {
	case err == nil || dropped(err):
		w.queue.Forget(key)
		if again {
			w.queue.Add(key)
		}
	case again:
		w.queue.AddRateLimited(key)
	}
	if err != nil {
		w.report(key, err)
	}
	return true
}

// takeOff moves what is queued for an object into flight; nil: nothing is.
func (w *Writer) takeOff(key types.NamespacedName) (*object, *v1alpha1.WorkerFunctionStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[key]
	if o == nil || o.queued == nil {
		return nil, nil
	}
	o.flying, o.queued = o.queued, nil
	return o, o.flying
}

// land takes in what became of the write in flight and reports whether there is
// something to write again.
func (w *Writer) land(key types.NamespacedName, o *object, answer *v1alpha1.WorkerFunction, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	flown := o.flying
	o.flying = nil
	if w.objects[key] != o { // forgotten, or it has a successor
		return w.objects[key] != nil
	}
	switch {
	case err == nil:
		status := answer.Status // alone, so that the rest of the answer is not kept
		o.written, o.version, o.unsure = &status, answer.ResourceVersion, false
		if o.queued != nil && same(o.queued, o.written) {
			o.queued = nil
		}
	case !dropped(err):
		o.unsure = true
		if o.queued == nil {
			o.queued = flown
		}
	}
	w.keep(key, o)
	return o.queued != nil
}

// write replaces the status of the object with this UID and returns the
// server's answer.
func (w *Writer) write(ctx context.Context, key types.NamespacedName, uid types.UID, s *v1alpha1.WorkerFunctionStatus) (*v1alpha1.WorkerFunction, error) {
	patch, err := replacement(uid, s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, writeTimeout, fmt.Errorf("no answer to a status write within %s", writeTimeout))
	defer cancel()
	answer := &v1alpha1.WorkerFunction{}
	answer.Namespace, answer.Name = key.Namespace, key.Name
	if err := w.client.Status().Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return nil, err
	}
	return answer, nil
}

// dropped reports whether a write has failed for good: the object is gone, or
// it is another one of the same name, or the server never takes this status.
func dropped(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) }

// report logs a failed write.
func (w *Writer) report(key types.NamespacedName, err error) {
	log := w.log.WithValues("object", key)
	var refused apierrors.APIStatus
	switch {
	// A UID that differs is Invalid too, but has no causes.
	case apierrors.IsInvalid(err) && errors.As(err, &refused) && refused.Status().Details != nil && len(refused.Status().Details.Causes) > 0:
		log.Error(err, "the API server refuses a status; is the custom resource definition of another version?")
	case dropped(err):
		log.V(1).Info("a status was dropped, its object is gone", "error", err.Error())
	default:
		log.V(1).Info("a status could not be written and is tried again", "error", err.Error())
	}
}
