package statuswriter

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// object is what is under way for one object. The Writer's lock guards it. The
// statuses are never changed, only replaced.
type object struct {
	uid     types.UID
	queued  *v1alpha1.WorkerFunctionStatus // to be written
	flying  *v1alpha1.WorkerFunctionStatus // being written
	written *v1alpha1.WorkerFunctionStatus // the server's last answer
	version string                         // the resource version of that answer
	unsure  bool                           // a write failed since, and may have arrived all the same
}

// latest is the newest status that is known, given a copy of the object from the
// cache.
func (o *object) latest(cached *v1alpha1.WorkerFunction) *v1alpha1.WorkerFunctionStatus {
	switch {
	case o.queued != nil:
		return o.queued
	case o.flying != nil:
		return o.flying
	default:
		return o.server(cached)
	}
}

// server is what the server last had, as far as is known: its last answer, or
// the cached copy unless that is older.
func (o *object) server(cached *v1alpha1.WorkerFunction) *v1alpha1.WorkerFunctionStatus {
	if o.written != nil && !o.caughtUp(cached) {
		return o.written
	}
	return &cached.Status
}

// catchUp drops the server's last answer once the cache has it.
func (o *object) catchUp(cached *v1alpha1.WorkerFunction) {
	if o.written != nil && o.caughtUp(cached) {
		o.written, o.version = nil, ""
	}
}

// caughtUp reports whether the cached copy is at least as new as the server's
// last answer.
func (o *object) caughtUp(cached *v1alpha1.WorkerFunction) bool {
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, o.version)
	return err == nil && order >= 0
}
