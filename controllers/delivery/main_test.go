package delivery

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

const testKey = "s3cret-key"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// rig is a started Dispatcher with short waits.
type rig struct {
	*Dispatcher
	t    *testing.T
	stop func() // ends it and waits
}

func start(t *testing.T, change ...func(*Dispatcher)) *rig {
	t.Helper()
	d := New(Options{})
	d.waits = waits{
		connect:   backoff{wait: 5 * time.Millisecond, limit: 20 * time.Millisecond},
		uncertain: backoff{wait: 5 * time.Millisecond, limit: 20 * time.Millisecond},
		dismiss:   backoff{wait: 5 * time.Millisecond, limit: 20 * time.Millisecond},
	}
	for _, c := range change {
		c(d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Start(ctx) }()
	r := &rig{Dispatcher: d, t: t, stop: sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Start: %v", err)
			}
		case <-time.After(patience):
			t.Errorf("Start did not return")
		}
	})}
	t.Cleanup(r.stop)
	return r
}

// asked is a Request that records what is asked of it, and that may be sent.
type asked struct {
	Request
	done chan Result

	mu        sync.Mutex
	resends   int
	dismissed []string
}

// request is a Request to endpoint with a long life and no re-sends.
func request(endpoint string) *asked {
	a := &asked{done: make(chan Result, 1)}
	a.Request = Request{
		Object:       types.NamespacedName{Namespace: "ns", Name: "greet"},
		Database:     "db:5432/postgres",
		Function:     "greet",
		InvocationID: uuid.New(),
		ExpiresIn:    patience,
		Wanted:       func() bool { return true },
		Target:       to(endpoint),
		Resend:       func() bool { return false },
		Progress:     func(Result) {},
		Dismiss: func(_ context.Context, reason string) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.dismissed = append(a.dismissed, reason)
			return nil
		},
		Done: func(r Result) { a.done <- r },
	}
	return a
}

// to is a Target that never changes.
func to(endpoint string) func() (Target, bool) {
	u, err := url.Parse(endpoint)
	if err != nil {
		panic(err)
	}
	return func() (Target, bool) { return Target{Endpoint: u, Key: NewSecret(testKey)}, true }
}

// resend lets an uncertain delivery be repeated n times.
func (a *asked) resend(n int) {
	a.Resend = func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.resends++
		return a.resends <= 2*n // asked before and after each wait
	}
}

func (a *asked) reasons() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.dismissed...)
}

// result waits for the end of the delivery, and for nothing after it.
func (a *asked) result(t *testing.T) Result {
	t.Helper()
	select {
	case r := <-a.done:
		return r
	case <-time.After(patience):
		t.Fatal("the delivery did not end")
		return Result{}
	}
}

// seenRequests records the requests that a server got.
type seenRequests struct {
	mu  sync.Mutex
	all []*http.Request
}

func (s *seenRequests) add(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}

func (s *seenRequests) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// serve runs an HTTP server that records requests before it answers.
func serve(t *testing.T, answer http.HandlerFunc) (*httptest.Server, *seenRequests) {
	t.Helper()
	got := &seenRequests{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without this net/http would not notice that the client has gone.
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		got.add(r)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server, got
}

// raw runs a TCP server that hands every connection to talk and counts them.
func raw(t *testing.T, talk func(net.Conn)) (address string, connections func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n := 0
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			mu.Lock()
			n++
			mu.Unlock()
			group.Go(func() {
				defer func() { _ = conn.Close() }()
				talk(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		group.Wait()
	})
	return listener.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// refusedAddress is a loopback address that nobody listens on.
func refusedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// within is Eventually with this package's patience.
func within(g Gomega, actual any) AsyncAssertion {
	return g.Eventually(actual).WithTimeout(patience).WithPolling(2 * time.Millisecond)
}
