package delivery

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// readRequest reads one HTTP request's header from a raw connection.
func readRequest(conn net.Conn) {
	buffer := make([]byte, 4096)
	for read := ""; !strings.Contains(read, "\r\n\r\n"); {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		read += string(buffer[:n])
	}
}

// Without a connection the id is sent again and again, unasked, until its time
// is over, and never dismissed.
func TestNotConnected(t *testing.T) {
	plain, _ := serve(t, func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	secure.Config.ErrorLog = quiet()
	t.Cleanup(secure.Close)
	hangUp, _ := raw(t, func(net.Conn) {})
	reset, _ := raw(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1))
		_ = conn.(*net.TCPConn).SetLinger(0)
	})
	refused := refusedAddress(t)
	for name, tc := range map[string]struct{ endpoint, message string }{
		"refused port":           {"http://" + refused, refused + ": connection refused"},
		"no such name":           {"http://nowhere.invalid:8000", "nowhere.invalid:8000: "},
		"unknown authority":      {secure.URL, "certificate"},
		"TLS to a plain server":  {strings.Replace(plain.URL, "http:", "https:", 1), "tls"},
		"cut in the handshake":   {"https://" + hangUp, hangUp + ": the connection was closed"},
		"reset in the handshake": {"https://" + reset, reset + ": the connection was closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			req := request(tc.endpoint)
			req.ExpiresIn = time.Second
			req.Resend = func() bool { t.Error("Resend was asked"); return true }
			progress := make(chan Result, 100)
			req.Progress = func(r Result) { progress <- r }
			start(t).Deliver(req.Request)
			result := req.result(t)
			g.Expect(result.Outcome).To(Equal(NotDelivered))
			g.Expect(result.Status).To(BeZero())
			g.Expect(result.Message).To(ContainSubstring(tc.message))
			g.Expect(result.Attempts).To(BeNumerically(">", 1))
			g.Expect(req.reasons()).To(BeEmpty())
			first := <-progress
			g.Expect(first.Outcome).To(Equal(Sending))
			g.Expect(first.Message).To(HavePrefix("no connection"))
			g.Expect(progress).To(BeEmpty(), "what does not change is told once: each time is a write of a status")
		})
	}
}

// The same id arrives as soon as somebody listens.
func TestConnectedLater(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	address := refusedAddress(t)
	req := request("http://" + address)
	tried := make(chan struct{}, 1)
	req.Progress = func(Result) { tried <- struct{}{} }
	start(t).Deliver(req.Request)
	<-tried

	listener, err := net.Listen("tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	ids := make(chan string, 10)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ids <- r.Header.Get(invocationHeader)
	})}}
	server.Start()
	t.Cleanup(server.Close)
	result := req.result(t)
	g.Expect(result.Outcome).To(Equal(Delivered))
	g.Expect(result.Attempts).To(BeNumerically(">", 1))
	g.Expect(<-ids).To(Equal(req.InvocationID.String()))
	g.Expect(ids).To(BeEmpty())
}

// A host that swallows packets is not connected to: neither a dial that hangs
// nor a TLS handshake that hangs outlives the invocation's time.
func TestBlackHole(t *testing.T) {
	silent, _ := raw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	for name, tc := range map[string]struct {
		endpoint string
		dial     func(context.Context, string, string) (net.Conn, error)
	}{
		"dial": {"http://192.0.2.1", func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		"handshake": {"https://" + silent, new(net.Dialer).DialContext},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			d := start(t, func(d *Dispatcher) {
				transport := newTransport()
				transport.DialContext = boundToAttempt(tc.dial)
				d.transport = transport
			})
			req := request(tc.endpoint)
			req.ExpiresIn = 200 * time.Millisecond
			d.Deliver(req.Request)
			result := req.result(t)
			g.Expect(result.Outcome).To(Equal(NotDelivered))
			g.Expect(result.Message).To(Equal("no connection: 200ms exceeded (what was left of the invocation)"))
			g.Expect(result.Attempts).To(Equal(1))
		})
	}
}

// What may have arrived is left pending, and sent again only if Resend says so.
func TestUncertain(t *testing.T) {
	for name, tc := range map[string]struct {
		talk    func(net.Conn)
		message string
	}{
		"reset": {func(conn net.Conn) {
			readRequest(conn)
			_ = conn.(*net.TCPConn).SetLinger(0)
		}, "no answer: the connection was reset"},
		"closed": {readRequest, "no answer: the connection was closed"},
		"hangs": {func(conn net.Conn) {
			_, _ = io.Copy(io.Discard, conn)
		}, "no answer: 300ms exceeded (what was left of the invocation)"},
		"not HTTP, and it repeats the key": {func(conn net.Conn) {
			readRequest(conn)
			_, _ = io.WriteString(conn, "Authorization: Bearer "+testKey+"\r\n\r\n")
		}, "no answer: what came is not valid HTTP"},
		"huge header": {func(conn net.Conn) {
			readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2*maxHeaderBytes)+"\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
		}, "no answer: what came is not valid HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			address, connections := raw(t, tc.talk)
			d := start(t)
			req := request("http://" + address)
			if name == "hangs" {
				req.ExpiresIn = 300 * time.Millisecond
			}
			d.Deliver(req.Request)
			g.Expect(req.result(t)).To(Equal(Result{InvocationID: req.InvocationID, Outcome: Unknown, Message: tc.message, Attempts: 1}))
			g.Expect(req.reasons()).To(BeEmpty())
			g.Expect(connections()).To(Equal(1))

			if name == "hangs" { // no time left to send again
				return
			}
			again := request("http://" + address)
			again.resend(2)
			d.Deliver(again.Request)
			g.Expect(again.result(t)).To(Equal(Result{InvocationID: again.InvocationID, Outcome: Unknown, Message: tc.message, Attempts: 3}))
			g.Expect(connections()).To(Equal(4))
		})
	}
}

// A function that takes part is asked again after 5xx, with the same id, and
// the last answer counts.
func TestResendAfterServerError(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var n atomic.Int32
	server, got := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) <= 2 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	req := request(server.URL)
	req.resend(10)
	start(t).Deliver(req.Request)
	g.Expect(req.result(t)).To(Equal(Result{InvocationID: req.InvocationID, Outcome: Delivered, Status: 200, Attempts: 3}))
	for _, r := range got.all {
		g.Expect(r.Header.Get(invocationHeader)).To(Equal(req.InvocationID.String()))
	}
}

// Once an id may have arrived, a later attempt without connection does not make
// it "not delivered", and Resend is asked again.
func TestUncertaintyStays(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	transport := newTransport()
	var dials atomic.Int32
	transport.DialContext = boundToAttempt(func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			address = "127.0.0.1:1"
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	req := request(server.URL)
	req.resend(3)
	start(t, func(d *Dispatcher) { d.transport = transport }).Deliver(req.Request)
	result := req.result(t)
	g.Expect(result.Outcome).To(Equal(Unknown))
	g.Expect(result.Attempts).To(Equal(4))
	g.Expect(result.Message).To(ContainSubstring("connection refused"))
}

// A redirect is refused, not followed, and the key goes nowhere else.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	thief, stolen := serve(t, func(http.ResponseWriter, *http.Request) {})
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
	})
	req := request(server.URL)
	start(t).Deliver(req.Request)
	g.Expect(req.result(t).Reason).To(Equal(ReasonRedirected))
	g.Expect(stolen.count()).To(BeZero())
}

// The environment's proxy does not see the key, and a name that is trusted
// works over TLS.
func TestTLSWithoutProxy(t *testing.T) {
	proxy, proxied := serve(t, func(http.ResponseWriter, *http.Request) {})
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("HTTP_PROXY", proxy.URL)
	g := NewWithT(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.Expect(r.ProtoMajor).To(Equal(1))
	}))
	t.Cleanup(server.Close)
	transport := newTransport()
	g.Expect(transport.Proxy).To(BeNil())
	transport.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	req := request(server.URL)
	start(t, func(d *Dispatcher) { d.transport = transport }).Deliver(req.Request)
	g.Expect(req.result(t).Outcome).To(Equal(Delivered))
	g.Expect(proxied.count()).To(BeZero())
}
