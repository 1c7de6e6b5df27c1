package edgeruntime

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"
)

// HandlerAnswer is the JSON that a worker function answers. Legacy workers leave Handshake and Reason out.
type HandlerAnswer struct {
	Status       string `json:"status"` // started, running, rejected
	WorkerID     string `json:"workerId,omitempty"`
	FunctionName string `json:"functionName"`
	Handshake    string `json:"handshake,omitempty"` // accepted, acknowledged, rejected
	Reason       string `json:"reason,omitempty"`
}

var errUnloaded = errors.New("the isolate was told to end")

// participant is a worker library that takes part in the handshake.
type participant struct {
	isolate *isolate
	// turn is held by the one request that is worked on; the others of this isolate wait for it, and then ask the
	// database afresh.
	turn turn
	// loaded ends with beforeunload: no initialisation goes on after it.
	loaded   context.Context //nolint:containedctx // part of the isolate's life
	unloaded context.CancelCauseFunc
	worker   atomic.Pointer[worker]
}

func newParticipant(i *isolate) *participant {
	p := &participant{isolate: i, turn: newTurn()}
	p.loaded, p.unloaded = context.WithCancelCause(i.ctx)
	return p
}

func (p *participant) current() *worker { return p.worker.Load() }

func (p *participant) handle(rq request) answer {
	f := p.isolate.function
	if refusal, ok := f.server.authenticate(rq, f.current()); !ok {
		return refusal
	}
	id, err := parseInvocation(rq.invocation)
	if rq.hasInvocation && err != nil {
		return p.rejected("unknown")
	}
	if err := p.turn.take(p.isolate.ctx); err != nil {
		return bootFailure(err)
	}
	defer p.turn.give()
	if !rq.hasInvocation {
		return p.direct()
	}
	// A worker whose loop runs here is named, so that a loop too busy to beat is not doubled.
	running := uuid.Nil
	if w := p.current(); w != nil && w.running() {
		running = w.id
	}
	r, err := f.server.db.receive(p.isolate.ctx, f.name, id, running)
	if err != nil {
		return failure(err.Error())
	}
	if r.verdict == "start" {
		return p.start(id)
	}
	return p.concluded(r)
}

// direct is the door for requests without an id: the runtime reserves for itself and proceeds only with its own
// reservation.
func (p *participant) direct() answer {
	f := p.isolate.function
	ctx, db := p.isolate.ctx, f.server.db
	r, err := db.reserve(ctx, f.name)
	if err == nil && r.decision == "unknown" {
		// No registration exists before the first start.
		if err = db.exec(ctx, "track_worker_function", trackFunctionSQL, f.name); err == nil {
			r, err = db.reserve(ctx, f.name)
		}
	}
	switch {
	case err != nil:
		return failure(err.Error())
	case r.decision == "reserved":
		return p.start(r.invocation)
	case r.decision == "ready":
		return p.running(r.ready, "")
	}
	return p.rejected(r.decision)
}

// start initialises a worker and registers it with the invocation. A start that fails is dismissed, and leaves the
// isolate ready for a later id.
func (p *participant) start(id uuid.UUID) answer {
	f := p.isolate.function
	db := f.server.db
	if w := p.current(); w != nil {
		w.stop(WorkerStopped) // its row no longer counts, so the new loop takes its place here
	}
	if err := p.isolate.initialise(p.loaded); err != nil {
		f.startFailed()
		reason := "unloaded"
		if failed, ok := errors.AsType[*startError](err); ok {
			reason = failed.reason
		}
		if dismissal := db.dismiss(p.isolate.ctx, f.name, id, reason); dismissal != nil {
			err = errors.Join(err, dismissal)
		}
		return failure(err.Error())
	}
	// Never made from the invocation's id: a losing runtime would share it, and its beforeunload would mark the
	// winner stopped.
	workerID := uuid.New()
	r, err := db.accept(p.isolate.ctx, f.name, id, workerID, f.queue())
	for err == nil && f.takeLostAccept() {
		r, err = db.accept(p.isolate.ctx, f.name, id, workerID, f.queue())
	}
	if err != nil {
		f.startFailed()
		if dismissal := db.dismiss(p.isolate.ctx, f.name, id, "accept_failed"); dismissal != nil {
			err = errors.Join(err, dismissal)
		}
		return failure(err.Error())
	}
	if r.verdict != "accepted" {
		return p.concluded(r)
	}
	p.worker.Store(p.isolate.begin(workerID, id, true))
	return answer{http.StatusOK, HandlerAnswer{Status: "started", WorkerID: workerID.String(), FunctionName: f.name,
		Handshake: "accepted"}}
}

// concluded answers for every verdict that starts nothing.
func (p *participant) concluded(r receipt) answer {
	if r.verdict == "acknowledged" {
		return p.running(r.ready, r.reason)
	}
	return p.rejected(r.reason)
}

func (p *participant) running(ready uuid.UUID, reason string) answer {
	a := HandlerAnswer{Status: "running", FunctionName: p.isolate.function.name, Handshake: "acknowledged",
		Reason: reason}
	if ready != uuid.Nil {
		a.WorkerID = ready.String()
	}
	return answer{http.StatusOK, a}
}

func (p *participant) rejected(reason string) answer {
	return answer{http.StatusConflict, HandlerAnswer{Status: "rejected", FunctionName: p.isolate.function.name,
		Handshake: "rejected", Reason: reason}}
}

// unload ends a start that is under way, then marks the worker stopped.
func (p *participant) unload() {
	p.unloaded(errUnloaded)
	if p.turn.take(p.isolate.ctx) != nil {
		return // killed first
	}
	defer p.turn.give()
	if w := p.current(); w != nil {
		w.markStopped(p.isolate.ctx)
	}
}

// parseInvocation accepts the canonical form alone.
func parseInvocation(text string) (uuid.UUID, error) {
	if len(text) != 36 {
		return uuid.Nil, errors.New("not a UUID")
	}
	return uuid.Parse(text)
}

// turn is a lock whose taking can be given up.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) give() { <-t }
