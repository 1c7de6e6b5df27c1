package edgeruntime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

func TestStatusesReachNoIsolate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, status := range []int{200, 301, 307, 401, 403, 404, 409, 418, 429, 500, 502, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			f := w.function(t, func(c *settings) {
				c.Mode, c.Status, c.Body, c.ModeCount = edgeruntime.ModeStatus, status, `{"error":"as asked"}`, 2
			}).registered()
			id := f.reserve()
			for range 2 {
				r := f.post(with(id))
				f.g.Expect(r.Err).NotTo(HaveOccurred())
				f.g.Expect([]any{r.Code, r.Text}).To(Equal([]any{status, `{"error":"as asked"}`}))
				location := BeEmpty()
				if status/100 == 3 {
					location = Not(BeEmpty())
				}
				f.g.Expect(r.Location).To(location)
			}
			f.g.Expect(f.state().Boots).To(BeZero())
			f.g.Expect(f.post(with(id)).Handshake).To(Equal("accepted"), "after modeCount requests it serves")
		})
	}
}

func TestALostAnswerLeavesTheWorkDone(t *testing.T) {
	t.Parallel()
	f := newWorld(t, nil).function(t, func(c *settings) { c.Mode = edgeruntime.ModeLost }).registered()
	f.g.Expect(f.post(with(f.reserve())).Err).To(HaveOccurred())
	f.g.Expect(f.live()).To(Equal(1))
	records, err := f.client.Requests(t.Context(), f.name, 0)
	f.g.Expect(err).NotTo(HaveOccurred())
	f.g.Expect(records).To(HaveLen(1))
	f.g.Expect(records[0].Outcome).To(Equal(edgeruntime.OutcomeLost))
	f.g.Expect(records[0].Answer).To(ContainSubstring("accepted"))
}

func TestADroppedRequestReachesNoIsolate(t *testing.T) {
	t.Parallel()
	f := newWorld(t, nil).function(t, func(c *settings) { c.Mode = edgeruntime.ModeDrop })
	f.g.Expect(f.post(nil).Err).To(HaveOccurred())
	f.g.Expect(f.state().Boots).To(BeZero())
}

func TestAHangingRequestEndsWithTheGatewaysTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *edgeruntime.Options) { o.GatewayTimeout = edgeruntime.Millis(100 * time.Millisecond) })
	f := w.function(t, func(c *settings) { c.Mode = edgeruntime.ModeHang })
	f.g.Expect(f.post(nil).Code).To(Equal(504))
	f.g.Expect(f.state().Boots).To(BeZero())
}

func TestASenderThatGoesAwayDoesNotStopTheBoot(t *testing.T) {
	t.Parallel()
	f := newWorld(t, nil).function(t, func(c *settings) { c.Hold = edgeruntime.HoldBoot }).registered()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan reply, 1)
	header := with(f.reserve())
	go func() { gone <- f.send(ctx, "/"+f.name, header) }()
	f.eventually(func() int { return f.state().Held }).Should(Equal(1))
	cancel()
	f.g.Expect((<-gone).Err).To(HaveOccurred())
	f.eventually(func() (o edgeruntime.Outcome) {
		records, _ := f.client.Requests(t.Context(), f.name, 0)
		return records[0].Outcome
	}).Should(Equal(edgeruntime.OutcomeSenderGone))
	f.g.Expect(f.client.Release(t.Context(), f.name)).To(Succeed())
	f.eventually(f.live).Should(Equal(1))
}

func TestTheGatewayGoesDownAndComesBackOnItsAddress(t *testing.T) {
	t.Parallel()
	f := newWorld(t, nil).function(t, nil).registered()
	before := f.server.Addresses()
	f.g.Expect(f.client.GatewayDown(t.Context())).To(Succeed())
	f.g.Expect(f.post(nil).Err).To(MatchError(ContainSubstring("refused")))
	f.g.Expect(f.client.GatewayUp(t.Context())).To(Succeed())
	f.g.Expect(f.server.Addresses()).To(Equal(before))
	f.g.Expect(f.post(with(f.reserve())).Handshake).To(Equal("accepted"))
}

func TestTheKeyChangesWhileItRuns(t *testing.T) {
	t.Parallel()
	f := newWorld(t, nil).function(t, nil).registered()
	f.g.Expect(f.client.SetKey(t.Context(), "another")).To(Succeed())
	f.g.Expect(f.post(nil).Code).To(Equal(401))
	f.g.Expect(f.client.SetKey(t.Context(), "")).To(Succeed())
	f.g.Expect(f.post(nil).Code).To(Equal(500), "no key configured")
	f.g.Expect(f.client.SetKey(t.Context(), key)).To(Succeed())
	f.g.Expect(f.post(nil).Code).To(Equal(200))

	records, err := f.client.Requests(t.Context(), f.name, 0)
	f.g.Expect(err).NotTo(HaveOccurred())
	var authorized []bool
	for _, r := range records {
		authorized = append(authorized, r.Authorized)
	}
	f.g.Expect(authorized).To(Equal([]bool{false, false, true}))
	f.g.Expect(records[0].Arrived.Mono).To(BeNumerically("<", records[1].Arrived.Mono))
}

func TestConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for _, bad := range []string{`{"kind":"deno"}`, `{"mode":"explode"}`, `{"hold":"ever"}`, `{"pods":0}`, `{"bootMs":-1}`,
		`{"heartbeatMs":1}`, `{"status":99}`, `{"bootMS!":1}`, `{"failStarts":-1}`, `{"duplicates":1000}`} {
		var config edgeruntime.FunctionConfig
		g.Expect(json.Unmarshal([]byte(bad), &config)).NotTo(Succeed(), bad)
	}
	var config edgeruntime.FunctionConfig
	g.Expect(json.Unmarshal([]byte(`{"bootMs":1500}`), &config)).To(Succeed())
	g.Expect(config.Boot.Duration()).To(Equal(1500 * time.Millisecond))
	g.Expect(config.Kind).To(Equal(edgeruntime.Participating))

	f := newWorld(t, nil).function(t, nil)
	f.g.Expect(f.client.Patch(t.Context(), f.name, map[string]any{"kind": "deno"})).
		To(MatchError(ContainSubstring("400 Bad Request")))
	f.g.Expect(f.client.Patch(t.Context(), "nobody", nil)).To(MatchError(ContainSubstring("404")))
	f.g.Expect(f.client.Remove(t.Context(), f.name)).To(Succeed())
	f.g.Expect(f.post(nil).Code).To(Equal(404))
	unknown := edgeruntime.DefaultFunction()
	f.g.Expect(f.client.SetDefault(t.Context(), &unknown)).To(Succeed())
	f.g.Expect(f.registered().post(with(f.reserve())).Handshake).To(Equal("accepted"))
}

// TestManyFunctions: many hang in their boots at once, start through a few connections, beat in batches, and stop
// in one transaction.
func TestManyFunctions(t *testing.T) {
	t.Parallel()
	const many = 300
	w := newWorld(t, func(o *edgeruntime.Options) {
		o.BatchHeartbeats, o.PoolSize = true, 4
		config := edgeruntime.DefaultFunction()
		config.WallClock, config.Hold = 0, edgeruntime.HoldBoot
		config.Heartbeat = edgeruntime.Millis(100 * time.Millisecond)
		o.Default = &config
	})
	g := NewWithT(t)
	var senders sync.WaitGroup
	defer senders.Wait()
	functions := make([]*function, many)
	for i := range functions {
		functions[i] = &function{world: w, t: t, g: g, name: fmt.Sprintf("f-%d", i)}
	}
	_, err := w.pool.Exec(t.Context(), `INSERT INTO pgflow.worker_functions (function_name)
		SELECT 'f-' || i FROM generate_series(0, $1 - 1) AS i`, many)
	g.Expect(err).NotTo(HaveOccurred())
	for _, f := range functions {
		header := with(f.reserve())
		senders.Go(func() { f.send(t.Context(), "/"+f.name, header) })
	}
	summary := func() edgeruntime.Summary {
		s, err := w.client.Summary(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		return s
	}
	g.Eventually(func() int64 { return summary().Boots }).WithTimeout(within).Should(Equal(int64(many)))
	g.Expect(summary().Workers).To(BeZero())
	for _, f := range functions {
		f.patch(map[string]any{"hold": ""})
	}
	g.Eventually(func() int64 { return summary().Workers }).WithTimeout(within).Should(Equal(int64(many)))
	beats := summary().Heartbeats
	g.Eventually(func() int64 { return summary().Heartbeats }).WithTimeout(within).Should(BeNumerically(">=", beats+2*many))

	// A batch draws the same conclusions as a single heartbeat.
	functions[0].exec(`DELETE FROM pgflow.workers WHERE function_name = 'f-0'`)
	functions[1].exec(`UPDATE pgflow.workers SET deprecated_at = now() WHERE function_name = 'f-1'`)
	g.Eventually(func() int64 { return summary().Workers }).WithTimeout(within).Should(Equal(int64(many - 2)))

	stopped, err := w.client.StopAll(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stopped.Workers).To(HaveLen(many - 2))
	var live int
	g.Expect(w.pool.QueryRow(t.Context(), `SELECT count(*) FROM pgflow.workers WHERE stopped_at IS NULL
		AND deprecated_at IS NULL`).Scan(&live)).To(Succeed())
	g.Expect(live).To(BeZero())
	g.Eventually(func() int64 { return summary().Workers }).WithTimeout(within).Should(BeZero())
}

// TestTheDatabaseGoesAway: a runtime that cannot reach the database answers 500 and is as good as new afterwards.
func TestNoDatabase(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server, err := edgeruntime.Start(edgeruntime.Options{
		DatabaseURL: "postgres://nobody:nothing@127.0.0.1:1/none", Key: key,
		Functions: map[string]edgeruntime.FunctionConfig{"f": edgeruntime.DefaultFunction()}})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(server.Close()).To(Succeed()) }()
	f := &function{world: &world{server: server, client: server.Client()}, t: t, g: g, name: "f"}
	r := f.post(nil)
	g.Expect(r.Code).To(Equal(http.StatusInternalServerError))
	g.Expect(r.Text).To(ContainSubstring("reserve_invocation"))
	g.Expect(r.Text).NotTo(ContainSubstring("nothing"), "no password in an answer")
}
