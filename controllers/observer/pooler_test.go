package observer

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
)

// pooler is a proxy in front of PostgreSQL that does to notifications what a transaction pooler does: LISTEN succeeds,
// and nothing comes of it.
type pooler struct {
	listener net.Listener
	server   string
	swallow  atomic.Bool
	done     sync.WaitGroup
}

// newPooler starts a pooler in front of the server of a database URL, and returns it and the URL through it.
func newPooler(t *testing.T, database string) (*pooler, string) {
	t.Helper()
	g := NewWithT(t)
	u, err := url.Parse(database)
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	p := &pooler{listener: listener, server: u.Host}
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.done.Wait()
	})
	u.Host = listener.Addr().String()
	return p, u.String()
}

func (p *pooler) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() {
			defer func() { _ = client.Close() }()
			server, err := net.Dial("tcp", p.server) //nolint:noctx // ends with the client
			if err != nil {
				return
			}
			defer func() { _ = server.Close() }()
			p.done.Go(func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			})
			p.answers(client, server)
		})
	}
}

// answers copies the server's messages: a letter, a length that counts itself, the rest. The connection is not
// encrypted, so there is nothing else.
func (p *pooler) answers(client io.Writer, server io.Reader) {
	header := make([]byte, 5)
	for {
		if _, err := io.ReadFull(server, header); err != nil {
			return
		}
		message := make([]byte, 1+binary.BigEndian.Uint32(header[1:]))
		copy(message, header)
		if _, err := io.ReadFull(server, message[5:]); err != nil {
			return
		}
		if header[0] == 'A' && p.swallow.Load() {
			continue
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}
