package edgeruntime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// clientTimeout bounds each call of a Client. It is longer than a statement's, because StopAll waits for one.
const clientTimeout = 2 * statementTimeout

// Client speaks to a stand-in's control API. Its methods return when the change is in force, an error that names
// the call otherwise; they are safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a Client of the control API at base, as in Addresses.Control.
func NewClient(base string) *Client {
	// Connections are not kept: a stand-in that has ended leaves nothing behind in its user's process.
	return &Client{base: strings.TrimSuffix(base, "/"), http: &http.Client{
		Timeout: clientTimeout, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Configure sets a function's whole configuration, creating the function when it does not exist.
func (c *Client) Configure(ctx context.Context, name string, config FunctionConfig) error {
	return c.call(ctx, http.MethodPut, functionPath(name), config, nil)
}

// ConfigureAll sets the configuration of many functions.
func (c *Client) ConfigureAll(ctx context.Context, configs map[string]FunctionConfig) error {
	return c.call(ctx, http.MethodPut, "/control/functions", configs, nil)
}

// SetDefault sets what functions are that nobody configured; nil: they answer 404.
func (c *Client) SetDefault(ctx context.Context, config *FunctionConfig) error {
	return c.call(ctx, http.MethodPut, "/control/default", config, nil)
}

// Patch changes the fields of a function's configuration that are named, by their names in JSON.
func (c *Client) Patch(ctx context.Context, name string, fields map[string]any) error {
	return c.call(ctx, http.MethodPatch, functionPath(name), fields, nil)
}

// Remove makes a function unknown and kills its runtimes.
func (c *Client) Remove(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, functionPath(name), nil, nil)
}

// State of a function.
func (c *Client) State(ctx context.Context, name string) (FunctionState, error) {
	var state FunctionState
	err := c.call(ctx, http.MethodGet, functionPath(name), nil, &state)
	return state, err
}

// Stop ends a function's runtimes, after their beforeunload.
func (c *Client) Stop(ctx context.Context, name string) (Stopped, error) {
	return c.stopped(ctx, functionPath(name)+"/stop")
}

// Kill ends a function's runtimes without beforeunload.
func (c *Client) Kill(ctx context.Context, name string) (Stopped, error) {
	return c.stopped(ctx, functionPath(name)+"/kill")
}

// StopAll marks all workers of all functions stopped in one transaction and ends all runtimes.
func (c *Client) StopAll(ctx context.Context) (Stopped, error) {
	return c.stopped(ctx, "/control/stop")
}

// KillAll ends all runtimes of all functions without beforeunload.
func (c *Client) KillAll(ctx context.Context) (Stopped, error) {
	return c.stopped(ctx, "/control/kill")
}

func (c *Client) stopped(ctx context.Context, path string) (Stopped, error) {
	var result Stopped
	err := c.call(ctx, http.MethodPost, path, nil, &result)
	return result, err
}

// Retire keeps requests from a function's active runtimes; their workers work on.
func (c *Client) Retire(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, functionPath(name)+"/retire", nil, nil)
}

// Release lets a function's held starts go on, and holds no later ones.
func (c *Client) Release(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, functionPath(name)+"/release", nil, nil)
}

// Duplicate delivers the function's last delivered request once more, to a runtime of its own when fresh is set, and
// returns what that answered.
func (c *Client) Duplicate(ctx context.Context, name string, fresh bool) (Redelivered, error) {
	var result Redelivered
	path := functionPath(name) + "/duplicate?fresh=" + strconv.FormatBool(fresh)
	err := c.call(ctx, http.MethodPost, path, nil, &result)
	return result, err
}

// SetKey changes the key that handlers expect; empty: none is configured.
func (c *Client) SetKey(ctx context.Context, key string) error {
	return c.call(ctx, http.MethodPut, "/control/key", map[string]string{"key": key}, nil)
}

// GatewayDown makes the gateway refuse connections and cuts those it has. What isolates work on goes on.
func (c *Client) GatewayDown(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/control/gateway/down", nil, nil)
}

// GatewayUp brings the gateway back on its address.
func (c *Client) GatewayUp(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/control/gateway/up", nil, nil)
}

// Requests returns the logged requests with a Seq above after, oldest first, of one function or, when that is empty,
// of all.
func (c *Client) Requests(ctx context.Context, function string, after int64) ([]RequestRecord, error) {
	query := url.Values{"after": {strconv.FormatInt(after, 10)}, "function": {function}}
	var records []RequestRecord
	err := c.call(ctx, http.MethodGet, "/control/requests?"+query.Encode(), nil, &records)
	return records, err
}

// Summary over all functions.
func (c *Client) Summary(ctx context.Context) (Summary, error) {
	var summary Summary
	err := c.call(ctx, http.MethodGet, "/control/summary", nil, &summary)
	return summary, err
}

func functionPath(name string) string { return "/control/functions/" + url.PathEscape(name) }

func (c *Client) call(ctx context.Context, method, path string, body, into any) (err error) {
	began := time.Now()
	defer func() {
		if err != nil {
			err = fmt.Errorf("edge runtime control: %s %s (after %v, deadline %v): %w", method, path,
				time.Since(began).Round(time.Millisecond), clientTimeout, err)
		}
	}()
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	rq, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	response, err := c.http.Do(rq)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxLoggedAnswer))
		return fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(text))
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
