package delivery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
)

const (
	// maxWait is how long one answer is waited for: gateways give up then too.
	maxWait = 150 * time.Second
	// maxBodyBytes and bodyWait bound the reading of an answer's body, which
	// only serves a message: the status has decided already.
	maxBodyBytes = 64 << 10
	bodyWait     = 2 * time.Second
)

// invocationHeader carries the invocation's id.
const invocationHeader = "X-Pgflow-Invocation-Id"

// verdict is what one attempt means for the invocation.
type verdict int

const (
	verdictDelivered verdict = iota
	verdictRefused
	verdictUncertain
	verdictNotConnected
)

// seen is what one attempt saw.
type seen struct {
	verdict verdict
	reason  string // of a refusal
	status  int    // 0: no answer
	message string
	cut     bool // there was no connection yet when the deadline came
}

// deadlineError names the deadline that ended an attempt.
type deadlineError struct {
	after time.Duration
	which string
}

func (e *deadlineError) Error() string {
	return fmt.Sprintf("%s exceeded (%s)", e.after.Round(time.Millisecond), e.which)
}

// attempt sends the invocation once and waits for the answer, no longer than
// remaining. It returns what it saw also when ctx ended; the caller knows that
// by ctx.
func attempt(ctx context.Context, transport http.RoundTripper, where *url.URL, key Secret, id uuid.UUID, remaining time.Duration) seen {
	deadline := &deadlineError{after: maxWait, which: "the longest wait for one request"}
	if remaining < maxWait {
		deadline = &deadlineError{after: remaining, which: "what was left of the invocation"}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deadline.after, deadline)
	defer cancel()

	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	resp, err := transport.RoundTrip(newHTTPRequest(withAttempt(ctx), where, key, id))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if !connected.Load() {
			var late *deadlineError
			return seen{verdict: verdictNotConnected, message: printable("no connection: "+connectMessage(where, err), key), cut: errors.As(err, &late)}
		}
		return seen{verdict: verdictUncertain, message: "no answer: " + brokenMessage(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	s := classify(resp.StatusCode)
	s.message = bodyMessage(readBody(ctx, resp.Body), key)
	return s
}

// newHTTPRequest returns the request of the contract. It has no apikey header:
// gateways reject keys that they do not know.
func newHTTPRequest(ctx context.Context, where *url.URL, key Secret, id uuid.UUID) *http.Request {
	const body = "{}"
	r := (&http.Request{
		Method: http.MethodPost,
		URL:    where,
		Host:   where.Host,
		Header: http.Header{
			"Authorization":  {"Bearer " + key.Reveal()},
			"Content-Type":   {"application/json"},
			"User-Agent":     {"pgflow-operator"},
			invocationHeader: {id.String()},
		},
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
	}).WithContext(ctx)
	return r
}

// classify is the contract's table for answers.
func classify(status int) seen {
	s := seen{status: status, verdict: verdictRefused}
	switch {
	case status == http.StatusConflict, status >= 200 && status < 300:
		s.verdict = verdictDelivered
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		s.reason = ReasonAuthRejected
	case status == http.StatusNotFound:
		s.reason = ReasonRouteNotFound
	case status >= 300 && status < 400:
		s.reason = ReasonRedirected
	case status >= 400 && status < 500:
		s.reason = fmt.Sprintf("http_%d", status)
	default: // 5xx, and codes that HTTP does not know
		s.verdict = verdictUncertain
	}
	return s
}

// readBody returns the beginning of an answer's body, as much as comes in time.
func readBody(ctx context.Context, body io.ReadCloser) []byte {
	ctx, cancel := context.WithTimeout(ctx, bodyWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop()
	data, _ := io.ReadAll(io.LimitReader(body, maxBodyBytes))
	return data
}

// connectMessage says in words of our own why no connection came about. The
// errors of net name the ephemeral port of each attempt, and the one for an
// expired certificate the time: a message that moves by itself would be written
// into a status at each attempt.
func connectMessage(where *url.URL, err error) string {
	var (
		deadline    *deadlineError
		name        *net.DNSError
		invalid     x509.CertificateInvalidError
		operation   *net.OpError
		systemError syscall.Errno
		timeout     net.Error
	)
	if errors.As(err, &deadline) {
		return deadline.Error()
	}
	why := ""
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		why = "no such host"
	case errors.As(err, &name):
		why = "the name cannot be resolved now"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		why = "the certificate has expired or is not valid yet"
	// Which of these it is can differ from one attempt to the next.
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		why = "the connection was closed"
	case errors.As(err, &systemError):
		why = systemError.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		why = "no answer in time"
	case errors.As(err, &operation): // an alert of TLS, for one
		why = operation.Err.Error()
	default: // TLS and its certificates
		why = err.Error()
	}
	return where.Host + ": " + why
}

// brokenMessage says in words of our own how an answer failed to come: the
// error of net/http quotes what the server sent, and the server has seen the
// key.
func brokenMessage(err error) string {
	var deadline *deadlineError
	switch {
	case errors.As(err, &deadline):
		return deadline.Error()
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed"
	default:
		return "what came is not valid HTTP"
	}
}
