package edgeruntime

import (
	"slices"
	"sync"

	"github.com/google/uuid"
)

// function is one deployed function: its configuration and its isolates, of all pods.
type function struct {
	server *Server
	name   string

	mu       sync.Mutex
	config   FunctionConfig
	gate     chan struct{} // closed when the present Hold is lifted; nil: nothing is held
	isolates []*isolate    // in the order of their boots; ended ones are gone
	turn     int           // requests taken, for the pods' turns
	last     *request      // last one delivered
	held     int           // isolates that wait at the gate
	requests int64
	boots    int64
	failed   int64 // starts that ended in an error
}

// startFailed counts a start that ended in an error.
func (f *function) startFailed() {
	f.server.counts.failedStarts.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed++
}

func newFunction(s *Server, name string, config FunctionConfig) *function {
	f := &function{server: s, name: name, config: config}
	if config.Hold != HoldNothing {
		f.gate = make(chan struct{})
	}
	return f
}

// configure replaces the configuration. A Hold that changes lets those go that waited for the old one.
func (f *function) configure(config FunctionConfig) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.configureLocked(config)
}

func (f *function) configureLocked(config FunctionConfig) {
	if config.Hold != f.config.Hold {
		if f.gate != nil {
			close(f.gate)
			f.gate = nil
		}
		if config.Hold != HoldNothing {
			f.gate = make(chan struct{})
		}
	}
	f.config = config
}

// patch changes the fields that data names.
func (f *function) patch(data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	config, err := decodeOver(f.config, data)
	if err != nil {
		return err
	}
	f.configureLocked(config)
	return nil
}

// release lets everything go that is held, and holds nothing any more.
func (f *function) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	config := f.config
	config.Hold = HoldNothing
	f.configureLocked(config)
}

func (f *function) current() FunctionConfig {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.config
}

// queue that workers register for.
func (f *function) queue() string {
	if q := f.current().Queue; q != "" {
		return q
	}
	return f.name
}

// arrive counts a request and says what the gateway does with it.
func (f *function) arrive() (Mode, FunctionConfig) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	mode, config := f.config.Mode, f.config
	if mode != ModeServe && f.config.ModeCount > 0 {
		if f.config.ModeCount--; f.config.ModeCount == 0 {
			f.config.Mode = ModeServe
		}
	}
	return mode, config
}

// takeFailure uses up one of the failures that are still to come.
func (f *function) takeFailure() (reason string, fail bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config.FailStarts == 0 {
		return "", false
	}
	f.config.FailStarts--
	return f.config.FailReason, true
}

// takeLostAccept uses up one of the answers of accept_invocation that are still to be lost.
func (f *function) takeLostAccept() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config.LoseAcceptAnswers == 0 {
		return false
	}
	f.config.LoseAcceptAnswers--
	return true
}

// deliver hands copies of a request to isolates and returns where the first copy's answer will be. All copies are
// routed before any is worked on, so that copies of a cold request boot an isolate each. Nothing cancels a delivery
// but the end of its isolate.
func (f *function) deliver(rq request, copies int) <-chan answer {
	f.mu.Lock()
	f.last = &rq
	f.mu.Unlock()
	answered := make(chan answer, 1)
	for n := range copies {
		i, cold := f.route(false)
		f.server.spawn(func() {
			a := i.run(rq, cold)
			if n == 0 {
				answered <- a
			}
		})
	}
	return answered
}

// redeliver delivers the last delivered request once more, to an isolate of its own when fresh is set, and returns
// the answer, which its first sender never sees. False: there was none yet.
func (f *function) redeliver(fresh bool) (answer, bool) {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if last == nil {
		return answer{}, false
	}
	i, cold := f.route(fresh)
	return i.run(*last, cold), true
}

// run answers a request in this isolate, which it boots when it is cold.
func (i *isolate) run(rq request, cold bool) answer {
	if cold {
		if err := i.boot(); err != nil {
			return bootFailure(err)
		}
	}
	return i.handler.handle(rq)
}

// route returns the isolate for the next request: the newest active one of the pod whose turn it is, else a cold one
// that the caller has to boot.
func (f *function) route(fresh bool) (i *isolate, cold bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pod := f.turn % f.config.Pods
	f.turn++
	if !fresh {
		for _, i := range slices.Backward(f.isolates) {
			if i.pod == pod && i.state == Active {
				return i, false
			}
		}
	}
	i = newIsolate(f, pod, f.config.Kind)
	f.isolates = append(f.isolates, i)
	f.boots++
	f.server.counts.boots.Add(1)
	return i, true
}

// end ends all isolates, after their beforeunload if unload is set, and returns the workers whose loops ended with
// them.
func (f *function) end(unload bool) []uuid.UUID {
	f.mu.Lock()
	isolates := slices.Clone(f.isolates)
	f.mu.Unlock()
	workers := f.runningWorkers()
	for _, i := range isolates {
		if unload {
			i.unload()
		}
		i.end()
	}
	return workers
}

// retire stops requests from being routed to the active isolates.
func (f *function) retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.isolates {
		i.retireLocked()
	}
}

// runningWorkers are those whose loops run.
func (f *function) runningWorkers() []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var workers []uuid.UUID
	for _, i := range f.isolates {
		if w := i.handler.current(); w != nil && w.running() {
			workers = append(workers, w.id)
		}
	}
	return workers
}
