package delivery

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// DefaultMaxConcurrent is how many attempts are under way at most, unless
// Options says otherwise. Each costs a connection and some 50 KiB.
const DefaultMaxConcurrent = 2000

// Options are what a Dispatcher needs. The zero value is usable.
type Options struct {
	// MaxConcurrent bounds the attempts under way; 0 is DefaultMaxConcurrent.
	MaxConcurrent int
	// Log gets one line per failed delivery; what goes well is at V(1).
	Log logr.Logger
	// Clock measures waits and the invocation's remaining time; nil is the real
	// one. The deadlines of network calls are always real.
	Clock clock.Clock
	// Transport sends the requests; nil is the product's own. For tests.
	Transport http.RoundTripper
}

// Dispatcher sends invocations. All methods may be called concurrently.
type Dispatcher struct {
	log       logr.Logger
	clock     clock.Clock
	transport http.RoundTripper
	slots     chan struct{}
	waits     waits
	started   chan struct{} // closed by Start
	running   sync.WaitGroup

	mu      sync.Mutex
	begun   bool // Start was called
	closed  bool // Start's context has ended
	entries map[entryKey]*entry
}

// waits are the pauses between attempts; tests shorten them.
type waits struct {
	connect   backoff // after an attempt that had no connection
	uncertain backoff // after an attempt that may have arrived
	dismiss   backoff // after a failed dismissal
}

// entryKey names what at most one delivery is in flight for.
type entryKey struct{ database, function string }

// entry is the delivery of one id, under way or ended. It keeps nothing of the
// request but the id and whose it is.
type entry struct {
	object types.NamespacedName
	result Result             // guarded by Dispatcher.mu
	hurry  chan struct{}      // holds at most one Hurry
	cancel context.CancelFunc // abandons the delivery
	ended  chan struct{}      // closed when the delivery has ended
}

// New returns a Dispatcher. What is delivered before Start waits for it.
func New(o Options) *Dispatcher {
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = DefaultMaxConcurrent
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	return &Dispatcher{
		log:       o.Log,
		clock:     o.Clock,
		transport: o.Transport,
		slots:     make(chan struct{}, o.MaxConcurrent),
		waits: waits{
			connect:   backoff{wait: 100 * time.Millisecond, limit: 5 * time.Second},
			uncertain: backoff{wait: time.Second, limit: 15 * time.Second},
			dismiss:   backoff{wait: 500 * time.Millisecond, limit: 5 * time.Second},
		},
		started: make(chan struct{}),
		entries: map[entryKey]*entry{},
	}
}

// Start lets deliveries run until ctx ends, then abandons those in flight,
// dismissing none, and returns when all have ended. It may be called once.
func (d *Dispatcher) Start(ctx context.Context) error {
	d.mu.Lock()
	if d.begun {
		d.mu.Unlock()
		return errors.New("delivery: the dispatcher was started before")
	}
	d.begun = true
	d.mu.Unlock()
	close(d.started)

	<-ctx.Done()
	d.mu.Lock()
	d.closed = true
	for _, e := range d.entries {
		e.cancel()
	}
	d.mu.Unlock()
	d.running.Wait()
	return nil
}

// Deliver begins the delivery of a request and returns at once. An id that this
// Dispatcher sends or has sent already is ignored; any other id cancels the
// function's older delivery and follows it. After the shutdown has begun,
// nothing is sent and Done is told so before Deliver returns.
func (d *Dispatcher) Deliver(req Request) {
	key := entryKey{req.Database, req.Function}
	expires := d.clock.Now().Add(req.ExpiresIn)

	d.mu.Lock()
	older := d.entries[key]
	if older != nil && older.result.InvocationID == req.InvocationID {
		d.mu.Unlock()
		return
	}
	if d.closed {
		d.mu.Unlock()
		req.Done(Result{InvocationID: req.InvocationID, Outcome: Abandoned})
		return
	}
	var previous <-chan struct{}
	if older != nil {
		older.cancel()
		previous = older.ended
	}
	// A delivery outlives the reconcile that asked for it; Start ends it.
	ctx, cancel := context.WithCancel(context.Background())
	e := &entry{
		object: req.Object,
		hurry:  make(chan struct{}, 1),
		result: Result{InvocationID: req.InvocationID, Outcome: Sending},
		cancel: cancel,
		ended:  make(chan struct{}),
	}
	d.entries[key] = e
	d.running.Add(1)
	d.mu.Unlock()

	go d.run(ctx, e, &req, previous, expires)
}

// Knows reports whether this process sends or has sent the id, and the latest
// result so far. Only the last id of a function is known.
func (d *Dispatcher) Knows(database, function string, id uuid.UUID) (Result, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[entryKey{database, function}]
	if e == nil || e.result.InvocationID != id {
		return Result{}, false
	}
	return e.result, true
}

// Hurry has a delivery of the object that waits to send again do so at once:
// what its Target answers has changed.
func (d *Dispatcher) Hurry(object types.NamespacedName, database, function string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[entryKey{database, function}]; e != nil && e.object == object {
		select {
		case e.hurry <- struct{}{}:
		default:
		}
	}
}

// Forget abandons the function's delivery, if one is in flight, and drops what
// is known of it. What another object delivers to the function meanwhile is
// left alone.
func (d *Dispatcher) Forget(object types.NamespacedName, database, function string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := entryKey{database, function}
	if e := d.entries[key]; e != nil && e.object == object {
		e.cancel()
		delete(d.entries, key)
	}
}

// run is the goroutine of one delivery.
func (d *Dispatcher) run(ctx context.Context, e *entry, req *Request, previous <-chan struct{}, expires time.Time) {
	defer d.running.Done()
	defer e.cancel()
	// Unconditionally: a third id waits for this one only, so this one must not
	// end before the first has.
	if previous != nil {
		<-previous
	}
	result := Result{InvocationID: req.InvocationID, Outcome: Abandoned}
	select {
	case <-ctx.Done():
	case <-d.started:
		run := delivery{Dispatcher: d, entry: e, req: req, expires: expires, waits: d.waits}
		result = run.send(ctx)
	}
	d.record(e, result)
	close(e.ended)
	d.logEnd(req, result)
	req.Done(result)
}

// record makes a result the latest of its delivery and reports whether it
// differs from the one before in more than the count of attempts.
func (d *Dispatcher) record(e *entry, r Result) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := e.result
	e.result = r
	before.Attempts = r.Attempts
	return before != r
}

// logEnd writes a line for a delivery that a person may want to know of.
func (d *Dispatcher) logEnd(req *Request, r Result) {
	log := d.log.WithValues("object", req.Object, "function", req.Function, "invocation", r.InvocationID,
		"outcome", r.Outcome, "status", r.Status, "attempts", r.Attempts)
	switch r.Outcome {
	case Refused:
		log.Info("invocation refused", "reason", r.Reason, "message", r.Message)
	case NotDelivered:
		log.Info("invocation not delivered", "message", r.Message)
	case Unknown:
		log.Info("invocation may have arrived", "message", r.Message)
	default:
		log.V(1).Info("delivery ended", "message", r.Message)
	}
}
