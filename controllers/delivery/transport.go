package delivery

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	// connectTimeout bounds a TCP connection with its name resolution, and
	// handshakeTimeout the TLS handshake: long enough for a lost SYN or two,
	// short enough that a host which is replaced is tried again in time.
	connectTimeout   = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// maxHeaderBytes bounds the header of an answer.
	maxHeaderBytes = 64 << 10
)

// newTransport returns the transport that deliveries use.
//
// Every request has a fresh connection: one kept alive may be closed by the
// server just when it is reused, which would make a request that never arrived
// look like one that did. There is no proxy: the key goes to the endpoint alone.
func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            boundToAttempt(dialer.DialContext),
		DisableKeepAlives:      true,
		DisableCompression:     true,
		Protocols:              protocols,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// attemptKey finds an attempt's context in the values of the context that
// net/http dials with.
type attemptKey struct{}

// withAttempt returns ctx carrying itself for boundToAttempt.
func withAttempt(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, ctx)
}

// boundToAttempt makes a connection end with the attempt that asked for it.
// net/http detaches dialling and the TLS handshake from the request, hoping that
// a later one can use the connection; here none can, and a shutdown would leave
// them behind.
func boundToAttempt(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		attempt, ok := ctx.Value(attemptKey{}).(context.Context)
		if !ok {
			return dial(ctx, network, address)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := context.AfterFunc(attempt, cancel)
		defer stop()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(attempt, func() { _ = conn.Close() })
		return conn, nil
	}
}
