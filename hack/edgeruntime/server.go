package edgeruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Instant is one reading of the stand-in's clocks. Mono counts nanoseconds since the Server started and orders all
// instants of one Server; Wall is for comparing with other processes.
type Instant struct {
	Mono int64     `json:"monoNs"`
	Wall time.Time `json:"wall"`
}

// Addresses are where a running Server listens, as URLs without a path.
type Addresses struct {
	Gateway string `json:"gateway"`
	Control string `json:"control"`
}

// FunctionsURL is what an operator is given as the functions URL: the gateway with its prefix.
func (a Addresses) FunctionsURL() string { return a.Gateway + gatewayPrefix }

// Server is a running stand-in. All methods are safe for concurrent use.
type Server struct {
	options Options
	epoch   time.Time
	db      *database
	log     *requestLog
	beats   *batchBeater // nil: each worker beats for itself
	gateway *listener
	control *listener
	key     atomic.Pointer[string]
	counts  counters

	ctx    context.Context //nolint:containedctx // the life of the Server itself, which background work hangs on
	cancel context.CancelFunc

	mu        sync.RWMutex
	functions map[string]*function
	fallback  *FunctionConfig // nil: unknown functions are 404
	closed    bool
	wg        sync.WaitGroup
}

// counters count over all functions, for ever.
type counters struct {
	requests, boots, registrations, failedStarts, heartbeats, workers atomic.Int64
}

// Start listens on both addresses and returns a Server that serves until Close.
func Start(options Options) (*Server, error) {
	options = options.withDefaults()
	db, err := openDatabase(options.DatabaseURL, options.PoolSize)
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, epoch: time.Now(), db: db, log: newRequestLog(options.LogSize),
		functions: map[string]*function{}, fallback: options.Default}
	s.SetKey(options.Key)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for name, config := range options.Functions {
		if err := s.Configure(name, config); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if options.BatchHeartbeats {
		s.beats = newBatchBeater(s)
		s.spawn(s.beats.run)
	}
	s.gateway = newListener(http.HandlerFunc(s.serveGateway))
	s.control = newListener(s.controlHandler())
	if err := errors.Join(s.gateway.open(options.Listen), s.control.open(options.ControlListen)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Addresses of the gateway and the control API; they stay the same while the gateway is down.
func (s *Server) Addresses() Addresses {
	return Addresses{Gateway: "http://" + s.gateway.address(), Control: "http://" + s.control.address()}
}

// Client of this Server's control API.
func (s *Server) Client() *Client { return NewClient(s.Addresses().Control) }

// Close ends both listeners and every isolate, without beforeunload, and returns when all work has ended.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	var errs []error
	for _, l := range []*listener{s.gateway, s.control} {
		if l != nil {
			errs = append(errs, l.close())
		}
	}
	s.each(func(f *function) { f.end(false) })
	s.wg.Wait()
	s.db.pool.Close()
	return errors.Join(errs...)
}

// SetKey changes the key that handlers expect from the next request on; empty: none is configured.
func (s *Server) SetKey(key string) { s.key.Store(&key) }

// Configure sets a function's configuration, creating it when it does not exist.
func (s *Server) Configure(name string, config FunctionConfig) error {
	if err := config.validate(); err != nil {
		return fmt.Errorf("function %q: %w", name, err)
	}
	s.mu.Lock()
	f := s.functions[name]
	if f == nil {
		f = newFunction(s, name, config)
		s.functions[name] = f
	}
	s.mu.Unlock()
	f.configure(config)
	return nil
}

// lookup returns the function of that name, made from the fallback when there is one; nil: no such function.
func (s *Server) lookup(name string) *function {
	s.mu.RLock()
	f := s.functions[name]
	s.mu.RUnlock()
	if f != nil {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.functions[name]; f == nil && s.fallback != nil {
		f = newFunction(s, name, *s.fallback)
		s.functions[name] = f
	}
	return f
}

// existing returns the function of that name, nil when nobody configured or requested it yet.
func (s *Server) existing(name string) *function {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.functions[name]
}

// remove makes a function unknown and kills its isolates.
func (s *Server) remove(name string) bool {
	s.mu.Lock()
	f := s.functions[name]
	delete(s.functions, name)
	s.mu.Unlock()
	if f != nil {
		f.end(false)
	}
	return f != nil
}

// each calls visit for every function that exists now, holding no lock.
func (s *Server) each(visit func(*function)) {
	s.mu.RLock()
	all := make([]*function, 0, len(s.functions))
	for _, f := range s.functions {
		all = append(all, f)
	}
	s.mu.RUnlock()
	for _, f := range all {
		visit(f)
	}
}

// now reads the clocks.
func (s *Server) now() Instant {
	now := time.Now()
	return Instant{Mono: now.Sub(s.epoch).Nanoseconds(), Wall: now}
}

// enter counts the caller as work that Close waits for; false: too late, the Server is closing.
func (s *Server) enter() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// spawn runs work in a goroutine that Close waits for; work not begun before Close is not begun at all.
func (s *Server) spawn(work func()) {
	if !s.enter() {
		return
	}
	go func() {
		defer s.wg.Done()
		work()
	}()
}

// stopAll gives every isolate that has a registered worker its beforeunload, all workers in one statement, and ends
// all isolates. It returns what it stopped.
func (s *Server) stopAll(ctx context.Context) (Stopped, error) {
	var workers []uuid.UUID
	s.each(func(f *function) { workers = append(workers, f.runningWorkers()...) })
	result := Stopped{Workers: workers, From: s.now()}
	err := again(ctx, func() error { return s.db.exec(ctx, "mark_worker_stopped", markManyStoppedSQL, workers) })
	if err != nil {
		return Stopped{}, err
	}
	result.Until = s.now()
	s.each(func(f *function) { f.end(false) })
	return result, nil
}
