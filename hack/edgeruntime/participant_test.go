package edgeruntime_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// TestParticipant has one entry per rule of the contract for a runtime that takes part.
func TestParticipant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	rules := []struct {
		rule   string
		config func(*settings)
		hold   func(*function)
	}{
		{"a valid id is accepted once initialisation has ended", func(c *settings) {
			c.Hold = edgeruntime.HoldInit
			c.Queue = "a-queue"
		}, func(f *function) {
			id := f.registered().reserve()
			answered := f.posting(with(id))
			f.eventually(func() int { return f.state().Held }).Should(Equal(1))
			f.g.Expect(f.rows()).To(BeEmpty())
			f.g.Expect(f.client.Release(f.t.Context(), f.name)).To(Succeed())
			r := f.answerOf(answered)
			f.g.Expect(r.Code).To(Equal(200))
			f.g.Expect(r.HandlerAnswer).To(Equal(edgeruntime.HandlerAnswer{Status: "started", WorkerID: r.WorkerID,
				FunctionName: f.name, Handshake: "accepted"}))
			f.g.Expect(f.rows()).To(HaveLen(1))
			f.g.Expect(*f.rows()[0].Invocation).To(Equal(id))
			f.g.Expect(f.rows()[0].ID).NotTo(Equal(id), "a worker's id is never made from the invocation's")
			var queue string
			f.g.Expect(f.pool.QueryRow(f.t.Context(), `SELECT queue_name FROM pgflow.workers WHERE invocation_id = $1`,
				id).Scan(&queue)).To(Succeed())
			f.g.Expect(queue).To(Equal("a-queue"))
		}},
		{"of copies in independent runtimes one is admitted, the others acknowledge", func(c *settings) {
			c.Pods = 3
			c.Hold = edgeruntime.HoldInit
		}, func(f *function) {
			id := f.registered().reserve()
			var copies []<-chan reply
			for range 3 {
				copies = append(copies, f.posting(with(id)))
			}
			f.eventually(func() int { return f.state().Held }).Should(Equal(3))
			f.g.Expect(f.client.Release(f.t.Context(), f.name)).To(Succeed())
			var handshakes []string
			for _, c := range copies {
				handshakes = append(handshakes, f.answerOf(c).Handshake)
			}
			f.g.Expect(handshakes).To(ConsistOf("accepted", "acknowledged", "acknowledged"))
			f.g.Expect(f.live()).To(Equal(1))
			f.g.Expect(f.state().RunningWorkers()).To(HaveLen(1))
		}},
		{"a copy that comes late is acknowledged, in a runtime of its own too", nil, func(f *function) {
			first := f.post(with(f.registered().reserve()))
			again, err := f.client.Duplicate(f.t.Context(), f.name, true)
			f.g.Expect(err).NotTo(HaveOccurred())
			f.g.Expect(again.Status).To(Equal(200))
			f.g.Expect(again.Answer).To(ContainSubstring(`"handshake":"acknowledged"`))
			f.g.Expect(again.Answer).To(ContainSubstring(first.WorkerID))
			f.g.Expect(f.state().Boots).To(Equal(int64(2)))
			f.g.Expect(f.live()).To(Equal(1))
		}},
		{"the runtime that lost an id serves a later one", func(c *settings) { c.Pods = 2 }, func(f *function) {
			id := f.registered().reserve()
			f.g.Expect(f.post(with(id)).Handshake).To(Equal("accepted"))
			f.g.Expect(f.post(with(id)).Handshake).To(Equal("acknowledged"))
			f.exec(`SELECT pgflow.mark_worker_stopped(worker_id) FROM pgflow.workers WHERE function_name = $1`, f.name)
			f.dueAgain()
			f.post(nil) // takes the turn of the first pod: starts there, in place of the stopped worker
			f.g.Expect(f.live()).To(Equal(1))
			f.exec(`SELECT pgflow.mark_worker_stopped(worker_id) FROM pgflow.workers WHERE function_name = $1`, f.name)
			f.dueAgain()
			f.g.Expect(f.post(with(f.reserve())).Handshake).To(Equal("accepted"))
			f.g.Expect(f.state().Boots).To(Equal(int64(2)), "no runtime was killed or redeployed")
		}},
		{"a failed start is dismissed with its reason, answered 500, and the runtime serves a later id", func(c *settings) {
			c.FailStarts = 1
			c.FailReason = "flow_mismatch"
		}, func(f *function) {
			r := f.post(with(f.registered().reserve()))
			f.g.Expect(r.Code).To(Equal(500))
			outcome, reason := f.outcome()
			f.g.Expect([]string{outcome, reason}).To(Equal([]string{"dismissed", "flow_mismatch"}))
			f.dueAgain()
			f.g.Expect(f.post(with(f.reserve())).Handshake).To(Equal("accepted"))
			f.g.Expect(f.state().Boots).To(Equal(int64(1)))
		}},
		{"an id that expires during initialisation is rejected, and the runtime serves a later one", func(c *settings) {
			c.Hold = edgeruntime.HoldInit
		}, func(f *function) {
			answered := f.posting(with(f.registered().reserve()))
			f.eventually(func() int { return f.state().Held }).Should(Equal(1))
			f.expired()
			f.g.Expect(f.client.Release(f.t.Context(), f.name)).To(Succeed())
			r := f.answerOf(answered)
			f.g.Expect(r.Code).To(Equal(409))
			f.g.Expect([]string{r.Status, r.Handshake, r.Reason}).To(Equal([]string{"rejected", "rejected", "expired"}))
			f.dueAgain()
			f.g.Expect(f.post(with(f.reserve())).Handshake).To(Equal("accepted"))
			f.g.Expect(f.state().Boots).To(Equal(int64(1)))
		}},
		{"an unknown id is rejected with 409", nil, func(f *function) {
			f.registered()
			r := f.post(with(uuid.New()))
			f.g.Expect(r.Code).To(Equal(409))
			f.g.Expect(r.HandlerAnswer).To(Equal(edgeruntime.HandlerAnswer{Status: "rejected", FunctionName: f.name,
				Handshake: "rejected", Reason: "unknown"}))
		}},
		{"a header that is no UUID is rejected and never falls through to the direct door", nil, func(f *function) {
			f.registered()
			for _, text := range []string{"", "x", "{" + uuid.NewString() + "}", "urn:uuid:" + uuid.NewString(),
				uuid.Nil.String()} {
				r := f.post(http.Header{"X-Pgflow-Invocation-Id": {text}})
				f.g.Expect([]any{r.Code, r.Reason}).To(Equal([]any{409, "unknown"}), text)
			}
			f.g.Expect(f.rows()).To(BeEmpty())
		}},
		{"without a header the runtime reserves for itself, tracking the function first", nil, func(f *function) {
			r := f.post(nil)
			if r.Status != "started" { // tracking may count as an invocation
				f.g.Expect(r.Reason).To(Equal("throttled"))
				f.dueAgain()
				r = f.post(nil)
			}
			f.g.Expect(r.Status).To(Equal("started"))
			f.g.Expect(f.live()).To(Equal(1))
			f.g.Expect(f.post(nil).Status).To(Equal("running"))
		}},
		{"without a header it says what keeps it from reserving", nil, func(f *function) {
			f.registered().reserve()
			reason := func() any { r := f.post(nil); return []any{r.Code, r.Status, r.Reason} }
			f.g.Expect(reason()).To(Equal([]any{409, "rejected", "pending"}))
			f.exec(`UPDATE pgflow.worker_functions SET invocation_id = NULL, invocation_expires_at = NULL
				WHERE function_name = $1`, f.name)
			f.g.Expect(reason()).To(Equal([]any{409, "rejected", "throttled"}))
			f.exec(`UPDATE pgflow.worker_functions SET enabled = false WHERE function_name = $1`, f.name)
			f.g.Expect(reason()).To(Equal([]any{409, "rejected", "disabled"}))
			f.exec(`UPDATE pgflow.worker_functions SET start_mode = 'process' WHERE function_name = $1`, f.name)
			f.g.Expect(reason()).To(Equal([]any{409, "rejected", "process"}))
		}},
		{"a lost answer of accept is asked for again and admits one worker", func(c *settings) { c.LoseAcceptAnswers = 2 },
			func(f *function) {
				f.g.Expect(f.post(with(f.registered().reserve())).Handshake).To(Equal("accepted"))
				f.g.Expect(f.rows()).To(HaveLen(1))
				f.g.Expect(f.state().Config.LoseAcceptAnswers).To(BeZero())
			}},
		{"a request counts as a heartbeat of the loop that runs here", func(c *settings) { c.StallHeartbeat = true },
			func(f *function) {
				f.post(with(f.registered().reserve()))
				f.exec(`UPDATE pgflow.workers SET last_heartbeat_at = clock_timestamp() - interval '10 minutes'
					WHERE function_name = $1`, f.name)
				f.dueAgain()
				f.g.Expect(f.post(with(f.reserve())).Handshake).To(Equal("acknowledged"))
				f.g.Expect(f.rows()).To(HaveLen(1))
			}},
		{"a heartbeat that finds the row gone ends the loop", nil, func(f *function) {
			f.post(with(f.registered().reserve()))
			f.exec(`DELETE FROM pgflow.workers WHERE function_name = $1`, f.name)
			f.eventually(func() edgeruntime.WorkerState { return f.state().Runtimes[0].Worker.State }).
				Should(Equal(edgeruntime.WorkerGone))
		}},
		{"beforeunload marks the worker stopped", nil, func(f *function) {
			f.post(with(f.registered().reserve()))
			_, err := f.client.Stop(f.t.Context(), f.name)
			f.g.Expect(err).NotTo(HaveOccurred())
			f.g.Expect(f.live()).To(Equal(0))
		}},
		{"beforeunload during initialisation dismisses the start", func(c *settings) { c.Hold = edgeruntime.HoldInit },
			func(f *function) {
				answered := f.posting(with(f.registered().reserve()))
				f.eventually(func() int { return f.state().Held }).Should(Equal(1))
				_, err := f.client.Stop(f.t.Context(), f.name)
				f.g.Expect(err).NotTo(HaveOccurred())
				f.g.Expect(f.answerOf(answered).Code).To(Equal(500))
				outcome, reason := f.outcome()
				f.g.Expect([]string{outcome, reason}).To(Equal([]string{"dismissed", "unloaded"}))
			}},
		{"a killed runtime dismisses nothing", func(c *settings) { c.Hold = edgeruntime.HoldInit }, func(f *function) {
			answered := f.posting(with(f.registered().reserve()))
			f.eventually(func() int { return f.state().Held }).Should(Equal(1))
			_, err := f.client.Kill(f.t.Context(), f.name)
			f.g.Expect(err).NotTo(HaveOccurred())
			f.g.Expect(f.answerOf(answered).Code).To(Equal(500))
			outcome, _ := f.outcome()
			f.g.Expect(outcome).To(BeEmpty())
		}},
		{"a refused request reads nothing and changes nothing", nil, func(f *function) {
			id := f.registered().reserve()
			header := with(id)
			header.Set("Authorization", "Bearer wrong")
			f.g.Expect(f.post(header).Code).To(Equal(401))
			f.g.Expect(f.post(with(id)).Handshake).To(Equal("accepted"))
		}},
		{"after an ordinary end the next id is served by another isolate", func(c *settings) {
			c.WallClock = edgeruntime.Millis(2 * time.Second)
		}, func(f *function) {
			f.post(with(f.registered().reserve()))
			f.eventually(f.live).Should(Equal(0))
			f.dueAgain()
			f.g.Expect(f.post(with(f.reserve())).Handshake).To(Equal("accepted"))
			f.g.Expect(f.state().Boots).To(Equal(int64(2)))
		}},
	}
	for _, r := range rules {
		t.Run(r.rule, func(t *testing.T) {
			t.Parallel()
			r.hold(w.function(t, r.config))
		})
	}
}
