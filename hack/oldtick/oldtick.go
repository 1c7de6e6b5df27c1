package oldtick

import (
	"context"
	_ "embed" // the statement is a file
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// batchSize and DefaultTimeout are those of pg_net as the old tick uses it.
	batchSize = 200
	// DefaultTimeout of a request whose Config does not say.
	DefaultTimeout = time.Second
	// tickTimeout bounds one tick's statement.
	tickTimeout = 30 * time.Second
)

//go:embed tick.sql
var tickSQL string

// Querier is the part of a pgx pool or connection that a tick uses.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Config of a Ticker. Function names and debounces come from the rows of pgflow.worker_functions.
type Config struct {
	Database Querier
	// FunctionsURL stands for https://<project id>.supabase.co/functions/v1.
	FunctionsURL string
	// Key stands for the vault's secret.
	Key string
	// Local makes every enabled function due at every tick.
	Local bool
	// Timeout of a request; 0: DefaultTimeout.
	Timeout time.Duration
}

// Ticker is the old cron job with its sender. Its methods are safe for concurrent use.
type Ticker struct {
	config Config
	client *http.Client

	mu      sync.Mutex
	queue   []string // functions to request
	sending bool     // a sender runs
	sent    sync.WaitGroup
}

// New returns a Ticker that does nothing before its first Tick.
func New(config Config) *Ticker {
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	return &Ticker{config: config, client: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Tick runs once and returns how many requests it queued; they are sent in the background, under ctx.
func (t *Ticker) Tick(ctx context.Context) (int, error) {
	limited, cancel := context.WithTimeoutCause(ctx, tickTimeout,
		fmt.Errorf("no answer within the tick's deadline of %v", tickTimeout))
	defer cancel()
	rows, err := t.config.Database.Query(limited, tickSQL, t.config.Local)
	if err != nil {
		return 0, fmt.Errorf("old tick: %w", err)
	}
	functions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("old tick: %w", err)
	}
	t.enqueue(ctx, functions)
	return len(functions), nil
}

// Run ticks at once and then at each interval until ctx ends, one tick at a time, and returns when what it sent has
// ended. A failed tick is passed over, as cron does; the number of requests queued is returned.
func (t *Ticker) Run(ctx context.Context, interval time.Duration) int {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	defer t.Wait()
	total := 0
	for {
		if n, err := t.Tick(ctx); err == nil {
			total += n
		}
		select {
		case <-ctx.Done():
			return total
		case <-ticker.C:
		}
	}
}

// Wait returns when everything queued was sent and has been answered, timed out or, by its context, abandoned.
func (t *Ticker) Wait() { t.sent.Wait() }

func (t *Ticker) enqueue(ctx context.Context, functions []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, functions...)
	if t.sending || len(t.queue) == 0 {
		return
	}
	t.sending = true
	t.sent.Go(func() { t.send(ctx) })
}

// send empties the queue, batch by batch.
func (t *Ticker) send(ctx context.Context) {
	for {
		t.mu.Lock()
		n := min(batchSize, len(t.queue))
		batch := t.queue[:n:n]
		t.queue = t.queue[n:]
		t.sending = n > 0
		t.mu.Unlock()
		if n == 0 {
			return
		}
		var slowest sync.WaitGroup
		for _, function := range batch {
			slowest.Go(func() { t.post(ctx, function) })
		}
		slowest.Wait()
	}
}

// post sends one request. Whatever comes of it is of no consequence, as with net.http_post.
func (t *Ticker) post(ctx context.Context, function string) {
	ctx, cancel := context.WithTimeout(ctx, t.config.Timeout)
	defer cancel()
	target := strings.TrimSuffix(t.config.FunctionsURL, "/") + "/" + url.PathEscape(function)
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader("{}"))
	if err != nil {
		return
	}
	rq.Header.Set("Authorization", "Bearer "+t.config.Key)
	rq.Header.Set("Content-Type", "application/json")
	response, err := t.client.Do(rq)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	_ = response.Body.Close()
}
