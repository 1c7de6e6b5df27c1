package edgeruntime

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// WorkerState is what has become of a worker's loop.
type WorkerState string

const (
	// WorkerRunning: the loop runs.
	WorkerRunning WorkerState = "running"
	// WorkerDeprecated: a heartbeat found deprecated_at set; the loop has drained and ended.
	WorkerDeprecated WorkerState = "deprecated"
	// WorkerGone: a heartbeat found no row; the loop has ended. Only of workers that take part.
	WorkerGone WorkerState = "gone"
	// WorkerStopped: marked stopped by beforeunload, or replaced in its isolate.
	WorkerStopped WorkerState = "stopped"
	// WorkerKilled: its isolate has ended without beforeunload.
	WorkerKilled WorkerState = "killed"
)

// worker is one polling loop. Its work is to beat; it has no tasks.
type worker struct {
	id           uuid.UUID
	invocation   uuid.UUID // uuid.Nil: registered without one
	isolate      *isolate
	participates bool

	cancel func()

	mu    sync.Mutex
	state WorkerState
	due   time.Time // of the next heartbeat; the batch's use only
}

// begin starts the loop of a worker that is registered.
func (i *isolate) begin(id, invocation uuid.UUID, participates bool) *worker {
	s := i.function.server
	ctx, cancel := context.WithCancel(i.ctx)
	w := &worker{id: id, invocation: invocation, isolate: i, participates: participates, state: WorkerRunning}
	s.counts.registrations.Add(1)
	s.counts.workers.Add(1)
	// The isolate may be killed at any time, this very moment included.
	w.mu.Lock()
	unhook := context.AfterFunc(i.ctx, func() { w.stop(WorkerKilled) })
	w.cancel = func() {
		unhook()
		cancel()
	}
	w.mu.Unlock()
	if s.beats != nil {
		s.beats.add(w)
	} else {
		s.spawn(func() { w.loop(ctx) })
	}
	return w
}

// loop beats until the worker ends. It reads the interval anew each time.
func (w *worker) loop(ctx context.Context) {
	s := w.isolate.function.server
	for {
		config := w.isolate.function.current()
		if sleep(ctx, config.Heartbeat.Duration()) != nil {
			return
		}
		if w.isolate.function.current().StallHeartbeat {
			continue
		}
		found, deprecated, err := s.db.heartbeat(ctx, w.id)
		if err != nil {
			continue // the next one may get through; the loop lives on
		}
		s.counts.heartbeats.Add(1)
		if !w.observe(found, deprecated) {
			return
		}
	}
}

// observe draws the conclusions from a heartbeat's answer; false: the loop has ended.
func (w *worker) observe(found, deprecated bool) bool {
	switch {
	case !found && w.participates:
		w.stop(WorkerGone)
	case deprecated:
		w.stop(WorkerDeprecated)
	}
	return w.running()
}

// stop ends the loop. The first cause counts, except that a drained worker can still be marked stopped.
func (w *worker) stop(cause WorkerState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == WorkerRunning {
		w.isolate.function.server.counts.workers.Add(-1)
		w.state = cause
	} else if cause == WorkerStopped {
		w.state = cause
	}
	w.cancel()
}

func (w *worker) running() bool { return w.now() == WorkerRunning }

func (w *worker) now() WorkerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// markStopped is beforeunload for one worker. A failure leaves it to the heartbeat's age, as in the field.
func (w *worker) markStopped(ctx context.Context) {
	w.stop(WorkerStopped)
	_ = w.isolate.function.server.db.markStopped(ctx, w.id)
}
