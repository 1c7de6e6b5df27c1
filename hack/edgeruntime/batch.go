package edgeruntime

import (
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// batchTick is how often the batch looks for workers whose heartbeat is due.
	batchTick = 100 * time.Millisecond
	// batchRows bounds one statement.
	batchRows = 1_000
)

// batchBeater beats for all workers of a Server in few statements, so that ten thousand of them cost no goroutines
// and few transactions.
type batchBeater struct {
	server *Server

	mu      sync.Mutex
	workers map[*worker]struct{}
}

func newBatchBeater(s *Server) *batchBeater {
	return &batchBeater{server: s, workers: map[*worker]struct{}{}}
}

func (b *batchBeater) add(w *worker) {
	w.mu.Lock()
	w.due = time.Now().Add(w.isolate.function.current().Heartbeat.Duration())
	w.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.workers[w] = struct{}{}
}

// run beats until the Server closes.
func (b *batchBeater) run() {
	for sleep(b.server.ctx, batchTick) == nil {
		for chunk := range slices.Chunk(b.dueNow(time.Now()), batchRows) {
			b.beat(chunk)
		}
	}
}

// dueNow returns the workers to beat for and forgets those whose loops have ended.
func (b *batchBeater) dueNow(now time.Time) []*worker {
	b.mu.Lock()
	defer b.mu.Unlock()
	var due []*worker
	for w := range b.workers {
		w.mu.Lock()
		ended, isDue := w.state != WorkerRunning, !w.due.After(now)
		w.mu.Unlock()
		if ended {
			delete(b.workers, w)
			continue
		}
		if !isDue {
			continue
		}
		config := w.isolate.function.current()
		w.mu.Lock()
		w.due = now.Add(config.Heartbeat.Duration())
		w.mu.Unlock()
		if !config.StallHeartbeat {
			due = append(due, w)
		}
	}
	return due
}

func (b *batchBeater) beat(workers []*worker) {
	ids := make([]uuid.UUID, len(workers))
	for i, w := range workers {
		ids[i] = w.id
	}
	found, err := b.server.db.heartbeats(b.server.ctx, ids)
	if err != nil {
		return // the next one may get through
	}
	b.server.counts.heartbeats.Add(int64(len(ids)))
	for _, w := range workers {
		deprecated, exists := found[w.id]
		w.observe(exists, deprecated)
	}
}
