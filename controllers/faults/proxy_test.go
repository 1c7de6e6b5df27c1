package faults_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/freeport"
)

// proxy passes TCP connections on to a target, until told otherwise. It stands for a network and for servers that hang:
// what it holds back arrives when it thaws, as after a SIGSTOP, unless it is cut first. Its address stays the same. All
// methods may be called concurrently.
type proxy struct {
	t       testing.TB
	target  string
	address string

	mu       sync.Mutex
	listener net.Listener // nil: connections are refused
	links    map[*link]struct{}
	running  sync.WaitGroup

	// requests and answers are what the new connections' two directions pass through.
	requests, answers *gate
}

// link is one connection that passes through.
type link struct {
	client, server net.Conn
	dropped        chan struct{}
	drop           sync.Once
}

// newProxy returns a proxy that passes everything, closed when the test ends.
func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := &proxy{t: t, target: target, links: map[*link]struct{}{}, requests: newGate(), answers: newGate()}
	// Somebody may take the port that was free.
	for range 10 {
		port, err := freeport.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if p.open() == nil {
			t.Cleanup(p.close)
			return p
		}
	}
	t.Fatal("no port for a proxy")
	return nil
}

func (p *proxy) open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", p.address)
	if err != nil {
		return err
	}
	p.listener = listener
	p.running.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.pass(connection) })
		}
	})
	return nil
}

// refuse refuses new connections; those that exist stay.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// down refuses new connections and cuts those that exist, as when the server is gone.
func (p *proxy) down() {
	p.refuse()
	p.cut()
}

// up ends refuse and down.
func (p *proxy) up() {
	p.t.Helper()
	if err := p.open(); err != nil {
		p.t.Errorf("proxy: %v", err)
	}
}

// freeze lets nothing pass any more in either direction; connections are accepted.
func (p *proxy) freeze() {
	p.requests.shut()
	p.answers.shut()
}

// freezeAnswers lets requests pass and keeps the answers back.
func (p *proxy) freezeAnswers() { p.answers.shut() }

// thaw ends freeze and freezeAnswers: what was kept back arrives.
func (p *proxy) thaw() {
	p.requests.open()
	p.answers.open()
}

// strand freezes the connections that exist for ever, as when a firewall forgets them; new ones pass.
func (p *proxy) strand() {
	p.freeze()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.answers = newGate(), newGate()
}

// cut ends all connections and forgets what it held back.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end()
	}
}

func (p *proxy) close() {
	p.down()
	p.running.Wait()
}

// pass connects to the target and copies both ways until either side ends.
func (p *proxy) pass(client net.Conn) {
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server, dropped: make(chan struct{})}
	p.mu.Lock()
	p.links[l] = struct{}{}
	refusing := p.listener == nil
	requests, answers := p.requests, p.answers
	p.mu.Unlock()
	if refusing { // it was accepted just before
		l.end()
	}
	var both sync.WaitGroup
	both.Go(func() { l.copy(server, client, requests) })
	both.Go(func() { l.copy(client, server, answers) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (l *link) end() {
	l.drop.Do(func() {
		close(l.dropped)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// copy copies one direction until it ends, and then ends both: nobody here half-closes connections.
func (l *link) copy(to, from net.Conn, g *gate) {
	defer l.end()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-g.passing():
		case <-l.dropped:
			return
		}
		// It may have been shut again since.
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// gate is open or shut.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while it is open
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) passing() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
		g.opened = make(chan struct{})
	default:
	}
}
