package edgeruntime

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/google/uuid"
)

// maxControlBody bounds what the control API reads: ten thousand functions' configurations fit.
const maxControlBody = 16 << 20

// FunctionState is what the control API says about one function.
type FunctionState struct {
	Name   string         `json:"name"`
	Config FunctionConfig `json:"config"`
	// Requests that reached the gateway; Boots of isolates, also those that ended in it; FailedStarts of workers,
	// those that ended in an error.
	Requests     int64 `json:"requests"`
	Boots        int64 `json:"boots"`
	FailedStarts int64 `json:"failedStarts"`
	// Held isolates wait to be released.
	Held int `json:"held"`
	// Runtimes that have not ended, in the order of their boots.
	Runtimes []RuntimeState `json:"runtimes"`
}

// RunningWorkers of a function's runtimes: those whose loops run.
func (s FunctionState) RunningWorkers() []WorkerInfo {
	var running []WorkerInfo
	for _, r := range s.Runtimes {
		if r.Worker != nil && r.Worker.State == WorkerRunning {
			running = append(running, *r.Worker)
		}
	}
	return running
}

// RuntimeState is one isolate. Booted is zero while it boots, Worker nil before its first registration.
type RuntimeState struct {
	ID     uuid.UUID    `json:"id"`
	Pod    int          `json:"pod"`
	State  IsolateState `json:"state"`
	Booted Instant      `json:"booted,omitzero"`
	Worker *WorkerInfo  `json:"worker,omitempty"`
}

// WorkerInfo is the worker last started in a runtime; InvocationID is uuid.Nil when it registered without one.
type WorkerInfo struct {
	ID           uuid.UUID   `json:"id"`
	InvocationID uuid.UUID   `json:"invocationId"`
	State        WorkerState `json:"state"`
}

// Stopped says which workers ended and when: between From and Until, both of the Server's clock.
type Stopped struct {
	Workers []uuid.UUID `json:"workers"`
	From    Instant     `json:"from"`
	Until   Instant     `json:"until"`
}

// Summary counts over all functions since the Server started; Workers and Functions are of now.
type Summary struct {
	Now           Instant `json:"now"`
	Functions     int     `json:"functions"`
	Requests      int64   `json:"requests"`
	LastSeq       int64   `json:"lastSeq"`
	Boots         int64   `json:"boots"`
	Registrations int64   `json:"registrations"`
	FailedStarts  int64   `json:"failedStarts"`
	Heartbeats    int64   `json:"heartbeats"`
	Workers       int64   `json:"workers"`
}

// Redelivered is the answer to a copy that the control API had delivered.
type Redelivered struct {
	Status int    `json:"status"`
	Answer string `json:"answer"`
}

func (s *Server) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /control/functions/{name}", s.putFunction)
	mux.HandleFunc("PATCH /control/functions/{name}", s.patchFunction)
	mux.HandleFunc("GET /control/functions/{name}", s.getFunction)
	mux.HandleFunc("DELETE /control/functions/{name}", s.deleteFunction)
	mux.HandleFunc("POST /control/functions/{name}/{action}", s.actOnFunction)
	mux.HandleFunc("PUT /control/functions", s.putFunctions)
	mux.HandleFunc("PUT /control/default", s.putDefault)
	mux.HandleFunc("PUT /control/key", s.putKey)
	mux.HandleFunc("POST /control/stop", s.postStopAll)
	mux.HandleFunc("POST /control/kill", s.postKillAll)
	mux.HandleFunc("POST /control/gateway/{state}", s.postGateway)
	mux.HandleFunc("GET /control/requests", s.getRequests)
	mux.HandleFunc("GET /control/summary", s.getSummary)
	return mux
}

func (s *Server) putFunction(w http.ResponseWriter, r *http.Request) {
	var config FunctionConfig
	if !decode(w, r, &config) {
		return
	}
	conclude(w, s.Configure(r.PathValue("name"), config), nil)
}

func (s *Server) putFunctions(w http.ResponseWriter, r *http.Request) {
	var configs map[string]FunctionConfig
	if !decode(w, r, &configs) {
		return
	}
	for name, config := range configs {
		if err := s.Configure(name, config); err != nil {
			conclude(w, err, nil)
			return
		}
	}
	conclude(w, nil, nil)
}

func (s *Server) patchFunction(w http.ResponseWriter, r *http.Request) {
	f := s.named(w, r)
	if f == nil {
		return
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxControlBody))
	if err == nil {
		err = f.patch(data)
	}
	conclude(w, err, nil)
}

func (s *Server) getFunction(w http.ResponseWriter, r *http.Request) {
	if f := s.named(w, r); f != nil {
		conclude(w, nil, f.state())
	}
}

func (s *Server) deleteFunction(w http.ResponseWriter, r *http.Request) {
	if !s.remove(r.PathValue("name")) {
		http.Error(w, "no such function", http.StatusNotFound)
	}
}

func (s *Server) actOnFunction(w http.ResponseWriter, r *http.Request) {
	f := s.named(w, r)
	if f == nil {
		return
	}
	switch action := r.PathValue("action"); action {
	case "stop", "kill":
		result := Stopped{From: s.now()}
		result.Workers = f.end(action == "stop")
		result.Until = s.now()
		conclude(w, nil, result)
	case "retire":
		f.retire()
	case "release":
		f.release()
	case "duplicate":
		a, ok := f.redeliver(r.URL.Query().Get("fresh") == "true")
		if !ok {
			http.Error(w, "no request was delivered yet", http.StatusConflict)
			return
		}
		conclude(w, nil, Redelivered{a.status, string(encode(a.body))})
	default:
		http.Error(w, "action is one of stop, kill, retire, release, duplicate", http.StatusNotFound)
	}
}

func (s *Server) putDefault(w http.ResponseWriter, r *http.Request) {
	var config *FunctionConfig
	if !decode(w, r, &config) {
		return
	}
	s.mu.Lock()
	s.fallback = config
	s.mu.Unlock()
}

func (s *Server) putKey(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Key string `json:"key"`
	}
	if decode(w, r, &body) {
		s.SetKey(body.Key)
	}
}

func (s *Server) postStopAll(w http.ResponseWriter, r *http.Request) {
	result, err := s.stopAll(r.Context())
	conclude(w, err, result)
}

func (s *Server) postKillAll(w http.ResponseWriter, _ *http.Request) {
	result := Stopped{From: s.now()}
	s.each(func(f *function) { result.Workers = append(result.Workers, f.end(false)...) })
	result.Until = s.now()
	conclude(w, nil, result)
}

func (s *Server) postGateway(w http.ResponseWriter, r *http.Request) {
	switch r.PathValue("state") {
	case "down":
		conclude(w, s.gateway.close(), nil)
	case "up":
		conclude(w, s.gateway.open(""), nil)
	default:
		http.Error(w, "the gateway is up or down", http.StatusNotFound)
	}
}

func (s *Server) getRequests(w http.ResponseWriter, r *http.Request) {
	var after int64
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseInt(text, 10, 64); err != nil || after < 0 {
			http.Error(w, "after is a sequence number", http.StatusBadRequest)
			return
		}
	}
	conclude(w, nil, s.log.after(after, r.URL.Query().Get("function")))
}

func (s *Server) getSummary(w http.ResponseWriter, _ *http.Request) {
	s.mu.RLock()
	functions := len(s.functions)
	s.mu.RUnlock()
	conclude(w, nil, Summary{Now: s.now(), Functions: functions, Requests: s.counts.requests.Load(),
		LastSeq: s.log.newest(), Boots: s.counts.boots.Load(), Registrations: s.counts.registrations.Load(),
		FailedStarts: s.counts.failedStarts.Load(), Heartbeats: s.counts.heartbeats.Load(),
		Workers: s.counts.workers.Load()})
}

// named returns the function that the path names, or answers 404.
func (s *Server) named(w http.ResponseWriter, r *http.Request) *function {
	f := s.existing(r.PathValue("name"))
	if f == nil {
		http.Error(w, "no such function", http.StatusNotFound)
	}
	return f
}

func (f *function) state() FunctionState {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := FunctionState{Name: f.name, Config: f.config, Requests: f.requests, Boots: f.boots, FailedStarts: f.failed,
		Held: f.held, Runtimes: make([]RuntimeState, 0, len(f.isolates))}
	for _, i := range f.isolates {
		r := RuntimeState{ID: i.id, Pod: i.pod, State: i.state, Booted: i.booted}
		if w := i.handler.current(); w != nil {
			r.Worker = &WorkerInfo{ID: w.id, InvocationID: w.invocation, State: w.now()}
		}
		state.Runtimes = append(state.Runtimes, r)
	}
	return state
}

// decode reads a JSON body, or answers 400.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		http.Error(w, fmt.Sprintf("body: %v", err), http.StatusBadRequest)
		return false
	}
	return true
}

// conclude answers with a result, or with the error: 400 for what the caller asked wrongly, else 500.
func conclude(w http.ResponseWriter, err error, result any) {
	switch {
	case err == nil && result == nil:
		w.WriteHeader(http.StatusNoContent)
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result) // the caller may have gone
	case errors.Is(err, errConfiguration):
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
