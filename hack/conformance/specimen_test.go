package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// specimen is a small worker, one runtime of it, which does one thing wrong, or nothing.
type specimen struct {
	fault fault
	pool  *pgxpool.Pool
	store *pgstate.Store
	life  context.Context //nolint:containedctx // the runtime's life; starts outlive their senders
	loops sync.WaitGroup

	arrivals atomic.Int32
	turn     sync.Mutex // held by the request that is worked on
	loop     *loop      // the last one; nil before the first
	admitted atomic.Pointer[uuid.UUID]

	// What some faults remember.
	stale, stuck uuid.UUID
	ailing       bool
}

// loop of a worker.
type loop struct {
	id    uuid.UUID
	end   context.CancelFunc
	ended chan struct{}
}

func (l *loop) runs() bool {
	if l == nil {
		return false
	}
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// runtime serves the function in a runtime of its own and returns its functions URL.
func runtime(t *testing.T, database string, f fault) string {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database+"&pool_max_conns=3")
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	s := &specimen{fault: f, pool: pool, store: pgstate.NewStore(pool), life: life}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		end()
		server.Close()
		s.loops.Wait()
		pool.Close()
	})
	return server.URL
}

func (s *specimen) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, maxBody)) // or the end of the sender is not noticed
	a := s.handle(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Code)
	_ = json.NewEncoder(w).Encode(a)
}

func (s *specimen) handle(r *http.Request) answer {
	authorized := subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+key)) == 1
	if !authorized && s.fault != keyless {
		return answer{Code: 401}
	}
	values, direct := r.Header[invocationHeader], r.Header[invocationHeader] == nil
	var id uuid.UUID
	if !direct {
		var err error
		if id, err = uuid.Parse(values[0]); err != nil || len(values[0]) != 36 {
			if s.fault != malformedIsNone {
				return s.rejected("unknown")
			}
			direct = true
		}
		direct = direct || id == uuid.Nil && s.fault == nilIsNone
	}
	known := s.admitted.Load()
	if s.arrivals.Add(1) > 2 && s.fault == impatient {
		s.arrivals.Add(-1)
		return s.rejected("starting")
	}
	defer s.arrivals.Add(-1)
	s.turn.Lock()
	defer s.turn.Unlock()
	ctx := s.life
	if s.fault == boundToSender {
		ctx = r.Context()
	}
	if direct {
		return s.direct(ctx)
	}
	a := s.invoked(ctx, id)
	if s.fault == startsTwice && known != nil && *known == id && a.Handshake == "acknowledged" {
		a.Status, a.Handshake = "started", "accepted"
	}
	return a
}

func (s *specimen) invoked(ctx context.Context, id uuid.UUID) answer {
	if s.ailing {
		s.ailing = false
		return answer{Code: 500}
	}
	if id != uuid.Nil && s.stuck == id {
		return s.running(uuid.Nil)
	}
	name := function
	if s.fault == servesAnybody {
		_ = s.pool.QueryRow(ctx, `SELECT function_name FROM pgflow.worker_functions WHERE invocation_id = $1`, id).Scan(&name)
	}
	running := uuid.Nil
	if s.loop.runs() && s.fault != nameless {
		running = s.loop.id
	}
	var r pgstate.Receipt
	err := s.again(func() (err error) {
		r, err = s.store.Receive(ctx, name, id, running)
		return err
	})
	switch {
	case err != nil:
		return answer{Code: 500}
	case r.Verdict == pgstate.VerdictStart:
		return s.start(ctx, name, id)
	case r.Verdict == pgstate.VerdictAcknowledged && s.fault == ignoresReady && !s.loop.runs(),
		r.Verdict == pgstate.VerdictRejected && s.fault == fault("starts although "+r.Reason):
		return s.tokenless(ctx)
	}
	return s.concluded(r)
}

func (s *specimen) direct(ctx context.Context) answer {
	r, err := s.store.Reserve(ctx, function)
	if err == nil && r.Decision == pgstate.DecisionUnknown && s.fault != untracked {
		if _, err = s.pool.Exec(ctx, `SELECT pgflow.track_worker_function($1, 'http')`, function); err == nil {
			r, err = s.store.Reserve(ctx, function)
		}
	}
	switch {
	case err != nil:
		return answer{Code: 500}
	case r.Decision == pgstate.DecisionReserved:
		return s.start(ctx, function, r.InvocationID)
	case r.Decision == pgstate.DecisionReady:
		return s.running(r.ReadyWorkerID)
	case r.Decision == pgstate.DecisionPending && s.fault == pushy:
		return s.tokenless(ctx)
	}
	return s.rejected(string(r.Decision))
}

func (s *specimen) start(ctx context.Context, name string, id uuid.UUID) answer {
	if s.fault == blindToItsRow && s.rowGone(ctx) {
		remembered := s.loop.id
		s.loop = nil
		return s.running(remembered)
	}
	worker := uuid.New()
	if s.fault == derivesID {
		worker = uuid.NewSHA1(uuid.NameSpaceURL, id[:])
	}
	asked := id
	if s.fault == accumulates && s.stale != uuid.Nil {
		asked, s.stale = s.stale, uuid.Nil
	}
	var r pgstate.Receipt
	err := s.again(func() (err error) {
		if s.fault == forgetful {
			worker = uuid.New()
		}
		r, err = s.store.Accept(ctx, name, asked, worker, "a-queue")
		return err
	})
	switch {
	case err != nil:
		if ctx.Err() != nil && s.fault == boundToSender {
			s.stuck = id
			return answer{Code: 500}
		}
		if s.fault != undismissed {
			_, _ = s.store.Dismiss(s.life, name, id, err.Error())
		}
		return answer{Code: 500}
	case r.Verdict == pgstate.VerdictAccepted:
		s.begin(worker)
		s.admitted.Store(&id)
		return s.started(worker)
	case r.Verdict == pgstate.VerdictAcknowledged && s.fault == soreLoser:
		return s.tokenless(ctx)
	case r.Verdict == pgstate.VerdictRejected:
		switch s.fault {
		case deaf:
			return s.started(worker)
		case accumulates:
			s.stale = id
		case fragile:
			s.ailing = true
		}
	}
	return s.concluded(r)
}

// tokenless starts a worker without an invocation, which the database allows to those that take no part.
func (s *specimen) tokenless(ctx context.Context) answer {
	worker := uuid.New()
	if _, err := s.pool.Exec(ctx, `INSERT INTO pgflow.workers (queue_name, worker_id, function_name) VALUES ('q', $1, $2)`,
		worker, function); err != nil {
		return answer{Code: 500}
	}
	s.begin(worker)
	return s.started(worker)
}

// begin starts a worker's loop in place of the last one.
func (s *specimen) begin(worker uuid.UUID) {
	if s.loop != nil {
		s.loop.end()
	}
	ctx, end := context.WithCancel(s.life)
	l := &loop{id: worker, end: end, ended: make(chan struct{})}
	s.loop = l
	s.loops.Go(func() {
		defer close(l.ended)
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if s.fault == heartless {
				continue
			}
			var ended bool
			err := s.pool.QueryRow(ctx, `UPDATE pgflow.workers SET last_heartbeat_at = clock_timestamp()
				WHERE worker_id = $1 RETURNING deprecated_at IS NOT NULL`, worker).Scan(&ended)
			if ended || errors.Is(err, pgx.ErrNoRows) {
				return
			}
		}
	})
}

func (s *specimen) rowGone(ctx context.Context) bool {
	var rows int
	err := s.pool.QueryRow(ctx, `SELECT count(*) FROM pgflow.workers WHERE worker_id = $1`, s.idOfLoop()).Scan(&rows)
	return err == nil && rows == 0 && s.loop != nil
}

func (s *specimen) idOfLoop() uuid.UUID {
	if s.loop == nil {
		return uuid.Nil
	}
	return s.loop.id
}

// again asks again whose answer was lost or met a lock timeout.
func (s *specimen) again(ask func() error) (err error) {
	for range 5 {
		err = ask()
		again := errors.Is(err, pgstate.ErrUnavailable) && s.fault != givesUp ||
			errors.Is(err, pgstate.ErrLockTimeout) && s.fault != hurried
		if !again {
			return err
		}
	}
	return err
}

func (s *specimen) concluded(r pgstate.Receipt) answer {
	if r.Verdict == pgstate.VerdictAcknowledged {
		return s.running(r.ReadyWorkerID)
	}
	return s.rejected(r.Reason)
}

func (s *specimen) started(worker uuid.UUID) answer {
	return answer{Code: 200, Status: "started", WorkerID: worker.String(), FunctionName: function, Handshake: "accepted"}
}

func (s *specimen) running(worker uuid.UUID) answer {
	return answer{Code: 200, Status: "running", WorkerID: worker.String(), FunctionName: function, Handshake: "acknowledged"}
}

func (s *specimen) rejected(reason string) answer {
	return answer{Code: 409, Status: "rejected", FunctionName: function, Handshake: "rejected", Reason: reason}
}
