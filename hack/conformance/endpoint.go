package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"

	"github.com/google/uuid"
)

const (
	invocationHeader = "X-Pgflow-Invocation-Id"
	// maxBody of an answer that is read.
	maxBody = 64 << 10
)

// client never follows redirects, and keeps no connection: a worker that ends is not to be mistaken for one that refuses.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// answer of a worker function, or why there was none.
type answer struct {
	Code         int    `json:"-"`
	Status       string `json:"status"`
	WorkerID     string `json:"workerId"`
	FunctionName string `json:"functionName"`
	Handshake    string `json:"handshake"`
	Reason       string `json:"reason"`
	err          error
}

// String sums an answer up in the contract's words: "200 started accepted", "409 rejected expired", "401".
func (a answer) String() string {
	if a.err != nil {
		return "no answer: " + a.err.Error()
	}
	words := []string{fmt.Sprint(a.Code)}
	if a.Status != "" {
		words = append(words, a.Status)
	}
	if a.Handshake != a.Status {
		words = append(words, a.Handshake)
	}
	if a.Handshake == "rejected" && a.Reason != "" {
		words = append(words, a.Reason)
	}
	return strings.TrimSpace(strings.Join(words, " "))
}

// headers are what is special about a request; a nil value leaves a header out.
type headers map[string][]string

func withID(id uuid.UUID) headers { return headers{invocationHeader: {id.String()}} }

// post sends a request to the function as a starter does. Written, if not nil, is called when it is on its way.
func post(ctx context.Context, endpoint *url.URL, function, key string, special headers, written func()) (a answer) {
	target := endpoint.JoinPath(url.PathEscape(function))
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		if written != nil {
			written()
		}
	}})
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader("{}"))
	if err != nil {
		return answer{err: err}
	}
	rq.Header.Set("Authorization", "Bearer "+key)
	rq.Header.Set("Content-Type", "application/json")
	for name, values := range special {
		if rq.Header.Del(name); values != nil {
			rq.Header[name] = values
		}
	}
	response, err := client.Do(rq)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if json.Unmarshal(text, &a) != nil {
		a = answer{} // not JSON, or not the contract's: the code says enough
	}
	a.Code, a.err = response.StatusCode, err
	return a
}
