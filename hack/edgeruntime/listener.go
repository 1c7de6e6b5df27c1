package edgeruntime

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// listener is an HTTP server that can go away and come back on the same address.
type listener struct {
	handler http.Handler

	mu     sync.Mutex
	addr   string
	server *http.Server // nil: down
	served chan struct{}
}

func newListener(handler http.Handler) *listener { return &listener{handler: handler} }

// address is host:port, also while the listener is down.
func (l *listener) address() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
}

// open listens on addr, or, when addr is empty, on the address it had. Open already: nothing happens.
func (l *listener) open(addr string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil {
		return nil
	}
	if addr == "" {
		addr = l.addr
	}
	socket, err := net.Listen("tcp", addr) //nolint:noctx // binding a local address does not wait
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l.addr = socket.Addr().String()
	l.server = &http.Server{Handler: l.handler, ReadHeaderTimeout: 10 * time.Second}
	l.served = make(chan struct{})
	go func(server *http.Server, served chan struct{}) {
		defer close(served)
		_ = server.Serve(socket) // always ErrServerClosed or the socket's end, both by close
	}(l.server, l.served)
	return nil
}

// close refuses new connections and cuts existing ones, as a gateway that crashes.
func (l *listener) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server == nil {
		return nil
	}
	err := l.server.Close()
	<-l.served
	l.server = nil
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
