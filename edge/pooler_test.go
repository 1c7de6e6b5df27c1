package edge_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pooler is a transaction pooler: each transaction of a client runs on whatever server connection has waited longest,
// start-up parameters go nowhere, and what needs a session (prepared statements, SET, LISTEN) is refused.
type pooler struct {
	t       *testing.T
	servers chan *pgproto3.Frontend
	lose    atomic.Pointer[string]
	lost    atomic.Int64
}

// pooled is the world behind a transaction pooler of its own, for one test.
func (f *function) pooled() *world {
	f.t.Helper()
	const size = 3
	p := &pooler{t: f.t, servers: make(chan *pgproto3.Frontend, size)}
	for range size {
		connection, err := pgconn.Connect(f.t.Context(), f.dsn)
		if err != nil {
			f.t.Fatal(err)
		}
		hijacked, err := connection.Hijack()
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = hijacked.Conn.Close() })
		p.servers <- hijacked.Frontend
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	f.t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		clients.Wait()
	})
	clients.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed at the test's end
			}
			context.AfterFunc(ctx, func() { _ = client.Close() })
			clients.Go(func() {
				defer func() { _ = client.Close() }()
				_ = p.serve(client) // ends with its client
			})
		}
	})
	behind, err := url.Parse(f.dsn)
	if err != nil {
		f.t.Fatal(err)
	}
	behind.Host = listener.Addr().String()
	w := *f.world
	w.dsn, w.pooler = behind.String(), p
	return &w
}

// loseAnswerTo cuts the client's connection when the next statement that contains text has been done.
func (p *pooler) loseAnswerTo(text string) { p.lose.Store(&text) }

func (p *pooler) serve(conn net.Conn) error {
	client := pgproto3.NewBackend(conn, conn)
	if err := p.startUp(client, conn); err != nil {
		return err
	}
	for {
		message, err := client.Receive()
		if err != nil {
			return err
		}
		if err := p.transaction(client, message); err != nil {
			return err
		}
	}
}

func (p *pooler) startUp(client *pgproto3.Backend, conn net.Conn) error {
	for {
		message, err := client.ReceiveStartupMessage()
		if err != nil {
			return err
		}
		switch message.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := conn.Write([]byte("N")); err != nil {
				return err
			}
		case *pgproto3.StartupMessage:
			client.Send(&pgproto3.AuthenticationOk{})
			client.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "15.0"})
			client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
			client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			return client.Flush()
		default:
			return fmt.Errorf("unexpected %T", message)
		}
	}
}

var errAnswerLost = errors.New("the answer is lost")

// transaction lends the client a server connection until that is idle again.
func (p *pooler) transaction(client *pgproto3.Backend, message pgproto3.FrontendMessage) error {
	if _, ends := message.(*pgproto3.Terminate); ends {
		return errors.New("the client has ended")
	}
	server := <-p.servers
	defer func() { p.servers <- server }()
	losing := false
	for {
		// Messages up to a Sync or a Flush go together; then the server has something to say.
		for {
			text := p.inspect(message)
			if lose := p.lose.Load(); lose != nil && strings.Contains(text, *lose) {
				losing = p.lose.CompareAndSwap(lose, nil)
			}
			server.Send(message)
			if endsBatch(message) {
				break
			}
			var err error
			if message, err = client.Receive(); err != nil {
				return err
			}
		}
		if err := server.Flush(); err != nil {
			return err
		}
		_, flushed := message.(*pgproto3.Flush)
		status, err := p.relay(client, server, flushed, losing && !flushed)
		if err != nil || status == 'I' {
			return err
		}
		if message, err = client.Receive(); err != nil {
			return err
		}
	}
}

func endsBatch(message pgproto3.FrontendMessage) bool {
	switch message.(type) {
	case *pgproto3.Sync, *pgproto3.Flush, *pgproto3.Query:
		return true
	}
	return false
}

// relay hands the server's messages to the client: until it is ready, or, after a Flush, has described the statement.
func (p *pooler) relay(client *pgproto3.Backend, server *pgproto3.Frontend, flushed, losing bool) (byte, error) {
	for {
		message, err := server.Receive()
		if err != nil {
			return 0, err
		}
		if !losing {
			client.Send(message)
		}
		described := false
		switch m := message.(type) {
		case *pgproto3.ReadyForQuery:
			if losing {
				p.lost.Add(1)
				return 0, errAnswerLost
			}
			return m.TxStatus, client.Flush()
		case *pgproto3.RowDescription, *pgproto3.NoData, *pgproto3.ErrorResponse:
			described = flushed
		}
		if described {
			return 0, client.Flush()
		}
	}
}

// inspect fails the test at what needs a session, and returns a statement's text in lower case.
func (p *pooler) inspect(message pgproto3.FrontendMessage) string {
	text := ""
	switch m := message.(type) {
	case *pgproto3.Parse:
		text = m.Query
		if m.Name != "" {
			p.t.Errorf("a prepared statement %q reached the transaction pooler: %s", m.Name, m.Query)
		}
	case *pgproto3.Query:
		text = m.String
	}
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, word := range []string{"set ", "listen ", "prepare ", "select pg_advisory_lock"} {
		if strings.HasPrefix(text, word) {
			p.t.Errorf("a statement that needs a session reached the transaction pooler: %s", text)
		}
	}
	return text
}
