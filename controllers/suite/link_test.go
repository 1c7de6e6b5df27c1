package suite_test

import (
	"context"
	"io"
	"net"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// link is a line to a database that can be cut and mended.
type link struct {
	url     string
	address string
	target  string

	mu       sync.Mutex
	listener net.Listener // nil: cut
	conns    map[net.Conn]struct{}
	running  sync.WaitGroup
}

// newLink lays a line to the database at dsn for as long as the spec runs.
func newLink(dsn string) *link {
	GinkgoHelper()
	u := parsed(dsn)
	l := &link{address: "127.0.0.1:0", target: u.Host, conns: map[net.Conn]struct{}{}}
	l.mend()
	u.Host = l.address
	l.url = u.String()
	DeferCleanup(func() {
		l.cut()
		l.running.Wait()
	})
	return l
}

// mend makes the line work, at the same address as before.
func (l *link) mend() {
	GinkgoHelper()
	listener, err := net.Listen("tcp", l.address)
	Expect(err).NotTo(HaveOccurred())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener, l.address = listener, listener.Addr().String()
	l.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.running.Go(func() { l.carry(conn) })
		}
	})
}

// cut refuses new connections and breaks those that there are.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	for conn := range l.conns {
		_ = conn.Close()
	}
}

// carry copies between a connection and the database until one of them ends.
func (l *link) carry(near net.Conn) {
	far, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.target)
	if err != nil {
		_ = near.Close()
		return
	}
	l.mu.Lock()
	whole := l.listener != nil
	l.conns[near], l.conns[far] = struct{}{}, struct{}{}
	l.mu.Unlock()
	if whole {
		var both sync.WaitGroup
		for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
			both.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = near.Close()
				_ = far.Close()
			})
		}
		both.Wait()
	}
	_ = near.Close()
	_ = far.Close()
	l.mu.Lock()
	delete(l.conns, near)
	delete(l.conns, far)
	l.mu.Unlock()
}
