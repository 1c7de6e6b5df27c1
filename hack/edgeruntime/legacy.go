package edgeruntime

import (
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"
)

// register is how the published workers start: track the function, initialise, insert the row without an invocation.
func (i *isolate) register(id uuid.UUID, trackSQL string) (w *worker, err error) {
	f := i.function
	db := f.server.db
	defer func() {
		if err != nil {
			f.startFailed()
		}
	}()
	if err := db.exec(i.ctx, "track_worker_function", trackSQL, f.name); err != nil {
		return nil, err
	}
	if err := i.initialise(i.ctx); err != nil {
		return nil, err
	}
	if err := db.exec(i.ctx, "insert worker", insertWorkerSQL, f.queue(), id, f.name); err != nil {
		return nil, err
	}
	return i.begin(id, uuid.Nil, false), nil
}

func legacyAnswer(status string, worker uuid.UUID, function string) answer {
	return answer{http.StatusOK, HandlerAnswer{Status: status, WorkerID: worker.String(), FunctionName: function}}
}

// legacy014 starts once per isolate, in the background; its answer says nothing about how that went.
type legacy014 struct {
	isolate *isolate
	started atomic.Bool
	worker  atomic.Pointer[worker]
}

func (l *legacy014) current() *worker { return l.worker.Load() }

func (l *legacy014) handle(rq request) answer {
	i := l.isolate
	f := i.function
	if refusal, ok := f.server.authenticate(rq, f.current()); !ok {
		return refusal
	}
	// The isolate's execution id is the worker's.
	if !l.started.CompareAndSwap(false, true) {
		return legacyAnswer("running", i.id, f.name)
	}
	f.server.spawn(func() {
		// A failure is an unhandled rejection: nobody hears of it, and the isolate goes on saying `running`.
		if w, err := i.register(i.id, trackFunction014SQL); err == nil {
			l.worker.Store(w)
		}
	})
	return legacyAnswer("started", i.id, f.name)
}

func (l *legacy014) unload() { unloadLegacy(l) }

// legacy015 awaits its start, one request at a time, and replaces a worker whose loop has ended.
type legacy015 struct {
	isolate *isolate
	turn    turn
	worker  atomic.Pointer[worker]
}

func newLegacy015(i *isolate) *legacy015 { return &legacy015{isolate: i, turn: newTurn()} }

func (l *legacy015) current() *worker { return l.worker.Load() }

func (l *legacy015) handle(rq request) answer {
	i := l.isolate
	f := i.function
	if refusal, ok := f.server.authenticate(rq, f.current()); !ok {
		return refusal
	}
	if err := l.turn.take(i.ctx); err != nil {
		return bootFailure(err)
	}
	defer l.turn.give()
	id := i.id
	if w := l.current(); w != nil {
		if w.running() {
			return legacyAnswer("running", w.id, f.name)
		}
		id = uuid.New() // a replacement is not the isolate's first worker
	}
	w, err := i.register(id, trackFunctionSQL)
	if err != nil {
		return failure(err.Error())
	}
	l.worker.Store(w)
	return legacyAnswer("started", id, f.name)
}

func (l *legacy015) unload() { unloadLegacy(l) }

// unloadLegacy marks what is registered by now; a start under way goes on until the isolate is killed.
func unloadLegacy(h handler) {
	if w := h.current(); w != nil {
		w.markStopped(w.isolate.ctx)
	}
}
