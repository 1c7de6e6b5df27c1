package delivery

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Every answer of the contract's table, and that it is sent once.
func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		status  int
		outcome Outcome
		reason  string
	}{
		{200, Delivered, ""},
		{202, Delivered, ""},
		{204, Delivered, ""},
		{409, Delivered, ""},
		{300, Refused, "redirected"},
		{301, Refused, "redirected"},
		{307, Refused, "redirected"},
		{400, Refused, "http_400"},
		{401, Refused, "auth_rejected"},
		{403, Refused, "auth_rejected"},
		{404, Refused, "route_not_found"},
		{405, Refused, "http_405"},
		{429, Refused, "http_429"},
		{500, Unknown, ""},
		{502, Unknown, ""},
		{503, Unknown, ""},
		{599, Unknown, ""},
		{799, Unknown, ""},
	} {
		t.Run(fmt.Sprint(tc.status), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server, got := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tc.status)
				if tc.status >= 300 {
					_, _ = io.WriteString(w, `{"msg":"so it is"}`)
				}
			})
			req := request(server.URL + "/functions/v1")
			start(t).Deliver(req.Request)
			want := Result{InvocationID: req.InvocationID, Outcome: tc.outcome, Reason: tc.reason, Status: tc.status, Attempts: 1}
			if tc.status >= 300 {
				want.Message = "so it is"
			}
			g.Expect(req.result(t)).To(Equal(want))
			if tc.reason == "" {
				g.Expect(req.reasons()).To(BeEmpty())
			} else {
				g.Expect(req.reasons()).To(Equal([]string{tc.reason}))
			}
			g.Expect(got.count()).To(Equal(1))
		})
	}
}

// What goes over the wire is exactly what the contract says.
func TestRequestOnTheWire(t *testing.T) {
	g := NewWithT(t)
	bodies := make(chan string, 1)
	server, got := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	})
	req := request(server.URL + "/functions/v1/")
	start(t).Deliver(req.Request)
	g.Expect(req.result(t).Outcome).To(Equal(Delivered))

	r := got.all[0]
	g.Expect(r.Method).To(Equal(http.MethodPost))
	g.Expect(r.RequestURI).To(Equal("/functions/v1/greet"))
	g.Expect(<-bodies).To(Equal("{}"))
	g.Expect(r.Header).To(Equal(http.Header{
		"Authorization":          {"Bearer " + testKey},
		"Content-Type":           {"application/json"},
		"X-Pgflow-Invocation-Id": {req.InvocationID.String()},
		"User-Agent":             {"pgflow-operator"},
		"Connection":             {"close"},
		"Content-Length":         {"2"},
	}))
}

// A name arrives as the one path segment it was, or is never sent.
func TestNames(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, got := serve(t, func(http.ResponseWriter, *http.Request) {})
	d := start(t)
	for _, tc := range []struct{ name, uri string }{
		{"greet", "/f/greet"},
		{"a/b", "/f/a%2Fb"},
		{"two words", "/f/two%20words"},
		{"100%", "/f/100%25"},
		{"%2e%2e", "/f/%252e%252e"},
		{"what?", "/f/what%3F"},
		{"c#", "/f/c%23"},
		{"a;b,c", "/f/a%3Bb%2Cc"},
		{`back\slash`, "/f/back%5Cslash"},
		{"größe", "/f/gr%C3%B6%C3%9Fe"},
		{"名前", "/f/%E5%90%8D%E5%89%8D"},
		{"...", "/f/..."},
		{"a..b", "/f/a..b"},
		{"/", "/f/%2F"},
		{strings.Repeat("x", 2000), "/f/" + strings.Repeat("x", 2000)},
	} {
		req := request(server.URL + "/f")
		req.Function = tc.name
		d.Deliver(req.Request)
		g.Expect(req.result(t).Outcome).To(Equal(Delivered), tc.name)
		last := got.all[len(got.all)-1]
		g.Expect(last.RequestURI).To(Equal(tc.uri), tc.name)
		g.Expect(last.URL.Path).To(Equal("/f/"+tc.name), tc.name)
		g.Expect(validName(tc.name)).To(BeTrue(), tc.name)
	}
	sent := got.count()
	for _, name := range []string{"", ".", "..", "a/..", "../admin", `..\admin`, "a/./b", "nul\x00", "line\nfeed", "\x7f", "\u0085", "\xff"} {
		req := request(server.URL + "/f")
		req.Function = name
		d.Deliver(req.Request)
		result := req.result(t)
		g.Expect(result.Outcome).To(Equal(Refused), "%q", name)
		g.Expect(result.Reason).To(Equal("invalid_name"), "%q", name)
		g.Expect(req.reasons()).To(Equal([]string{"invalid_name"}), "%q", name)
		g.Expect(validName(name)).To(BeFalse(), "%q", name)
	}
	g.Expect(got.count()).To(Equal(sent))
}

// The prefix of an endpoint stays as it is written; what is no part of a
// functions URL is left out.
func TestInvocationURL(t *testing.T) {
	g := NewWithT(t)
	for endpoint, want := range map[string]string{
		"http://h:8000":                     "http://h:8000/a%2Fb",
		"http://h:8000/":                    "http://h:8000/a%2Fb",
		"https://h/functions/v1//":          "https://h/functions/v1/a%2Fb",
		"https://h/pre%2Ffix/v1":            "https://h/pre%2Ffix/v1/a%2Fb",
		"https://user:pw@h/v1?query=1#frag": "https://h/v1/a%2Fb",
	} {
		target, _ := to(endpoint)()
		u, err := invocationURL(target.Endpoint, "a/b")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(u.String()).To(Equal(want))
	}
}

// A body that never ends, or is very long, decides nothing and is not waited
// for.
func TestBodies(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"slow": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"never `)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"huge": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"`)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server, _ := serve(t, answer)
			req := request(server.URL)
			begun := time.Now()
			start(t).Deliver(req.Request)
			result := req.result(t)
			g.Expect(result.Outcome).To(Equal(Refused))
			g.Expect(result.Reason).To(Equal(ReasonAuthRejected))
			g.Expect(result.Message).To(BeEmpty())
			g.Expect(time.Since(begun)).To(BeNumerically("<", bodyWait+patience/2))
		})
	}
}

// Only one JSON field is shown, short, printable and without the key.
func TestMessages(t *testing.T) {
	g := NewWithT(t)
	key := NewSecret(testKey)
	for body, want := range map[string]string{
		``:                                                       "",
		`<html>502 Bad Gateway</html>`:                           "",
		`"just text"`:                                            "",
		`["error"]`:                                              "",
		`{"status":"started","workerId":"x"}`:                    "",
		`{"ERROR":"other case"}`:                                 "",
		`{"error":"Unauthorized"}`:                               "Unauthorized",
		`{"msg":"Invalid JWT"}`:                                  "Invalid JWT",
		`{"code":"NOT_FOUND","message":"why"}`:                   "why",
		`{"code":404}`:                                           "404",
		`{"error":{"deep":1},"code":"C"}`:                        "C",
		`{"error":"","msg":null,"code":"C"}`:                     "C",
		`{"error":true,"msg":"m"}`:                               "m",
		`{"error":"a\nb\u0000\u202e  c\t"}`:                      "a b c",
		`{"error":"got Bearer ` + testKey + `!"}`:                "got Bearer [redacted]!",
		`{"error":"` + strings.Repeat("ä", 300) + `"}`:           strings.Repeat("ä", 256),
		`{"error":"` + strings.Repeat("x ", 300) + `"}`:          strings.TrimRight(strings.Repeat("x ", 128), " "),
		`{"error":"` + strings.Repeat("x", 250) + testKey + `"}`: strings.Repeat("x", 250) + "[redac",
	} {
		g.Expect(bodyMessage([]byte(body), key)).To(Equal(want), body)
	}
}
