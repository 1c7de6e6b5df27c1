package edgeruntime

import (
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	gatewayPrefix    = "/functions/v1"
	invocationHeader = "X-Pgflow-Invocation-Id"
	// maxBody of a request that is read; what is longer is cut off.
	maxBody = 64 << 10
)

// request is what an isolate sees of an HTTP request.
type request struct {
	authorization string
	invocation    string // the header's value
	hasInvocation bool   // the header is present, if empty
}

// answer is what a gateway or an isolate replies.
type answer struct {
	status int
	body   any // a string is sent as it is, anything else as JSON
}

// functionName returns the name in a request's path, with or without the gateway's prefix: one path segment,
// unescaped.
func functionName(u *url.URL) (string, bool) {
	path := strings.TrimPrefix(u.EscapedPath(), gatewayPrefix)
	segment, ok := strings.CutPrefix(path, "/")
	if !ok || segment == "" || strings.Contains(segment, "/") {
		return "", false
	}
	name, err := url.PathUnescape(segment)
	return name, err == nil
}

// serveGateway takes the time first: it is what benchmarks measure.
func (s *Server) serveGateway(w http.ResponseWriter, r *http.Request) {
	arrived := s.now()
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.wg.Done()
	// Drained so that the server notices a sender that goes away.
	_, _ = io.CopyN(io.Discard, r.Body, maxBody)

	name, named := functionName(r.URL)
	rq := request{authorization: r.Header.Get("Authorization")}
	if values := r.Header.Values(invocationHeader); len(values) > 0 {
		rq.invocation, rq.hasInvocation = values[0], true
	}
	s.counts.requests.Add(1)
	var f *function
	if named {
		f = s.lookup(name)
	}
	record := &RequestRecord{Arrived: arrived, Function: name, Method: r.Method, Path: r.URL.EscapedPath(),
		HasInvocation: rq.hasInvocation, InvocationID: rq.invocation, Authorized: s.authorized(rq)}
	if f == nil {
		s.log.add(record)
		s.reply(w, record, answer{http.StatusNotFound, map[string]string{"msg": "function not found"}}, "")
		return
	}
	mode, config := f.arrive()
	record.Mode = mode
	s.log.add(record)
	s.serveFunction(w, r, f, rq, record, mode, config)
}

func (s *Server) serveFunction(w http.ResponseWriter, r *http.Request, f *function, rq request, record *RequestRecord,
	mode Mode, config FunctionConfig) {
	gaveUp := time.NewTimer(s.options.GatewayTimeout.Duration())
	defer gaveUp.Stop()
	var answered <-chan answer // never, in ModeHang
	switch mode {
	case ModeDrop:
		s.log.finish(record, OutcomeDropped, answer{}, s.now())
		panic(http.ErrAbortHandler)
	case ModeStatus:
		s.reply(w, record, answer{config.Status, config.Body}, config.Location)
		return
	case ModeHang:
	default:
		if config.VerifyJWT {
			if refusal, ok := verifyJWT(rq); !ok {
				s.reply(w, record, refusal, "")
				return
			}
		}
		answered = f.deliver(rq, 1+config.Duplicates)
	}
	select {
	case a := <-answered:
		if mode == ModeLost {
			s.log.finish(record, OutcomeLost, a, s.now())
			panic(http.ErrAbortHandler)
		}
		s.reply(w, record, a, "")
	case <-gaveUp.C:
		s.reply(w, record, answer{http.StatusGatewayTimeout, map[string]string{"message": "upstream timed out"}}, "")
	case <-r.Context().Done():
		s.log.finish(record, OutcomeSenderGone, answer{}, s.now())
		panic(http.ErrAbortHandler)
	case <-s.ctx.Done():
		panic(http.ErrAbortHandler)
	}
}

// reply writes an answer and then its line in the log.
func (s *Server) reply(w http.ResponseWriter, record *RequestRecord, a answer, location string) {
	body := encode(a.body)
	if location == "" && a.status/100 == 3 {
		location = "/redirected"
	}
	if location != "" {
		w.Header().Set("Location", location)
	}
	if json.Valid(body) {
		w.Header().Set("Content-Type", "application/json")
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	// First the log: whoever has the answer must find it there.
	s.log.finish(record, OutcomeAnswered, a, s.now())
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // the sender may have gone
}

func encode(body any) []byte {
	if text, ok := body.(string); ok {
		return []byte(text)
	}
	if body == nil {
		return nil
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // bodies are this package's own types
	}
	return encoded
}

// verifyJWT is the main service's check under VERIFY_JWT=true: something that looks like a JWT, in the header that
// the worker library wants its key in.
func verifyJWT(rq request) (refusal answer, ok bool) {
	token, found := strings.CutPrefix(rq.authorization, "Bearer ")
	switch {
	case !found:
		return answer{http.StatusUnauthorized, map[string]string{"msg": "Error: Missing authorization header"}}, false
	case strings.Count(token, ".") != 2:
		return answer{http.StatusUnauthorized, map[string]string{
			"code": "UNAUTHORIZED_INVALID_JWT_FORMAT", "message": "Invalid JWT format"}}, false
	}
	return answer{}, true
}

// authorized reports whether a request carries exactly the key that is configured now.
func (s *Server) authorized(rq request) bool {
	key := *s.key.Load()
	return key != "" && subtle.ConstantTimeCompare([]byte(rq.authorization), []byte("Bearer "+key)) == 1
}

// authenticate is the handler's own check, in the isolate.
func (s *Server) authenticate(rq request, config FunctionConfig) (refusal answer, ok bool) {
	switch {
	case config.Local || s.authorized(rq):
		return answer{}, true
	case *s.key.Load() == "":
		return failure("No authentication key is configured"), false
	}
	return answer{http.StatusUnauthorized, map[string]string{
		"error": "Unauthorized", "message": "Invalid or missing authorization"}}, false
}

// failure is the library's 500.
func failure(message string) answer {
	return answer{http.StatusInternalServerError, map[string]string{"error": "Internal Server Error", "message": message}}
}
