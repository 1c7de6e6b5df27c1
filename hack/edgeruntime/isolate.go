package edgeruntime

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
)

// IsolateState is where an isolate is in its life; see the package's diagram.
type IsolateState string

const (
	// Booting: not active yet; no other request is routed to it.
	Booting IsolateState = "booting"
	// Active: requests are routed to it.
	Active IsolateState = "active"
	// Retired: past half of its wall clock; its worker works, requests go elsewhere.
	Retired IsolateState = "retired"
	// Unloading: told that it ends.
	Unloading IsolateState = "unloading"
	// Ended: gone.
	Ended IsolateState = "ended"
)

var errIsolateEnded = errors.New("the isolate has ended")

// isolate is one runtime: it boots, handles requests by its kind, has at most one worker loop, and ends.
type isolate struct {
	function *function
	id       uuid.UUID // SB_EXECUTION_ID
	pod      int
	handler  handler

	ctx    context.Context //nolint:containedctx // the isolate's life; requests outlive their senders, not it
	cancel context.CancelCauseFunc

	// guarded by function.mu
	state  IsolateState
	booted Instant
	timers []*time.Timer
}

// handler is the worker library inside an isolate.
type handler interface {
	// handle answers a request that was routed to this isolate.
	handle(request) answer
	// unload is the library's beforeunload: it marks the worker stopped.
	unload()
	// current is the worker last started here, nil before the first. It takes no lock that a start holds.
	current() *worker
}

func newIsolate(f *function, pod int, kind Kind) *isolate {
	i := &isolate{function: f, id: uuid.New(), pod: pod, state: Booting}
	i.ctx, i.cancel = context.WithCancelCause(f.server.ctx)
	switch kind {
	case Legacy014:
		i.handler = &legacy014{isolate: i}
	case Legacy015:
		i.handler = newLegacy015(i)
	default:
		i.handler = newParticipant(i)
	}
	return i
}

// boot returns when the isolate is active, and with an error if it ended before.
func (i *isolate) boot() error {
	f := i.function
	if err := sleep(i.ctx, f.current().Boot.Duration()); err != nil {
		return err
	}
	if err := f.wait(i.ctx, HoldBoot); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i.state != Booting {
		return errIsolateEnded
	}
	i.state, i.booted = Active, f.server.now()
	if wall := f.config.WallClock.Duration(); wall > 0 {
		i.timers = append(i.timers,
			time.AfterFunc(wall/2, i.retire),
			time.AfterFunc(wall, i.end))
		if !f.config.NoBeforeUnload {
			i.timers = append(i.timers, time.AfterFunc(wall*9/10, func() { f.server.spawn(i.unload) }))
		}
	}
	return nil
}

// bootFailure is what the main service answers when an isolate ends under a request.
func bootFailure(err error) answer {
	return answer{http.StatusInternalServerError, map[string]string{"msg": err.Error()}}
}

func (i *isolate) retire() {
	i.function.mu.Lock()
	defer i.function.mu.Unlock()
	i.retireLocked()
}

func (i *isolate) retireLocked() {
	if i.state == Active {
		i.state = Retired
	}
}

// unload runs beforeunload, once; it returns when that has ended.
func (i *isolate) unload() {
	f := i.function
	f.mu.Lock()
	first := i.state == Active || i.state == Retired
	if first {
		i.state = Unloading
	}
	f.mu.Unlock()
	if first {
		i.handler.unload()
	}
}

// end kills the isolate: everything in it stops where it is.
func (i *isolate) end() {
	f := i.function
	f.mu.Lock()
	i.state = Ended
	for _, t := range i.timers {
		t.Stop()
	}
	f.isolates = slices.DeleteFunc(f.isolates, func(other *isolate) bool { return other == i })
	f.mu.Unlock()
	i.cancel(errIsolateEnded)
}

// startError is an initialisation that failed, with the reason to dismiss it with.
type startError struct{ reason string }

func (e *startError) Error() string { return "the worker could not be initialised: " + e.reason }

// initialise is what happens between a request's receipt and the worker's registration, bounded by ctx.
func (i *isolate) initialise(ctx context.Context) error {
	f := i.function
	if err := sleep(ctx, f.current().Init.Duration()); err != nil {
		return err
	}
	if err := f.wait(ctx, HoldInit); err != nil {
		return err
	}
	if reason, fail := f.takeFailure(); fail {
		return &startError{reason}
	}
	return nil
}

// wait returns when hold is not, or no longer, the function's Hold.
func (f *function) wait(ctx context.Context, hold Hold) error {
	f.mu.Lock()
	gate := f.gate
	if f.config.Hold != hold {
		gate = nil
	}
	if gate == nil {
		f.mu.Unlock()
		return context.Cause(ctx)
	}
	f.held++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.held--
		f.mu.Unlock()
	}()
	select {
	case <-gate:
		return context.Cause(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
