package statuswriter

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

const (
	// writeRate is how many writes a second all objects share, and writeBurst how many may come at once: what a small
	// API server takes beside its other work. writeWorkers is how many are under way at most.
	writeRate    = 100
	writeBurst   = 200
	writeWorkers = 4

	// writeTimeout bounds one write, flushTimeout what is written after the
	// operator was told to end.
	writeTimeout = 10 * time.Second
	flushTimeout = 5 * time.Second
	// An object whose write failed waits from firstRetry up to lastRetry.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// Options are what a Writer needs. The zero value is usable.
type Options struct {
	// Log gets what the API server refuses for good; retries are at V(1).
	Log logr.Logger
	// Clock stamps conditions that changed; nil is the real one.
	Clock clock.PassiveClock
}

// Writer writes statuses. Its methods may be called concurrently; none but
// Start waits for the API server.
type Writer struct {
	client client.StatusClient
	log    logr.Logger
	clock  clock.PassiveClock
	limit  *rate.Limiter
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	objects map[types.NamespacedName]*object
}

// New returns a Writer that writes with the client. What is submitted before
// Start is written then.
func New(c client.StatusClient, o Options) *Writer {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Writer{
		client: c,
		log:    o.Log,
		clock:  o.Clock,
		limit:  rate.NewLimiter(writeRate, writeBurst),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry)),
		objects: map[types.NamespacedName]*object{},
	}
}

// Submit makes next the status of the object that obj is the cached copy of;
// next is copied. The Writer gives conditions their lastTransitionTime: that of
// Latest where the status is the same, else what next says, or now. Nothing is written if the server has this status
// already.
func (w *Writer) Submit(obj *v1alpha1.WorkerFunction, next v1alpha1.WorkerFunctionStatus) {
	key := client.ObjectKeyFromObject(obj)
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[key]
	if o == nil || o.uid != obj.UID {
		o = &object{uid: obj.UID}
	}
	settled := next.DeepCopy()
	settle(settled, o.latest(obj).Conditions, w.clock.Now())
	status, err := stored(settled)
	if err != nil {
		w.log.Error(err, "a status cannot be written", "object", key)
		return
	}
	if o.flying == nil && !o.unsure && same(status, o.server(obj)) {
		o.queued = nil
		w.keep(key, o)
		return
	}
	o.queued = status
	w.objects[key] = o
	w.queue.Add(key)
}

// Latest returns the newest status of the object that obj is the cached copy of:
// queued, in flight, written, or obj's own. The caller may change it.
func (w *Writer) Latest(obj *v1alpha1.WorkerFunction) v1alpha1.WorkerFunctionStatus {
	key := client.ObjectKeyFromObject(obj)
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[key]
	if o == nil || o.uid != obj.UID {
		return *obj.Status.DeepCopy()
	}
	latest := *o.latest(obj).DeepCopy()
	o.catchUp(obj)
	w.keep(key, o)
	return latest
}

// Forget drops what is queued and kept for an object.
func (w *Writer) Forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, key)
	w.queue.Forget(key)
}

// keep stores o, but only if it holds something. The caller holds mu.
func (w *Writer) keep(key types.NamespacedName, o *object) {
	if o.queued == nil && o.flying == nil && o.written == nil {
		delete(w.objects, key)
		return
	}
	w.objects[key] = o
}

// Start writes until ctx ends, then what is still queued for at most a few
// seconds more, and returns when all writes have ended. It may be called once.
func (w *Writer) Start(ctx context.Context) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var workers sync.WaitGroup
	for range writeWorkers {
		workers.Go(func() {
			for w.next(work) {
			}
		})
	}

	<-ctx.Done()
	timer := time.AfterFunc(flushTimeout, func() {
		stop(fmt.Errorf("the operator ends, and the %s for its last writes are over", flushTimeout))
	})
	defer timer.Stop()
	w.hurry()
	w.queue.ShutDown()
	workers.Wait()
	return nil
}

// hurry makes due what waits for another try: the queue forgets that when it is
// shut down.
func (w *Writer) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, o := range w.objects {
		if o.queued != nil {
			w.queue.Add(key)
		}
	}
}
