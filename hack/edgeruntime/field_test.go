package edgeruntime_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

type settings = edgeruntime.FunctionConfig

// TestField has one entry per statement about edge runtimes and published workers that the operator is built on.
func TestField(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	statements := []struct {
		statement string
		config    func(*settings)
		hold      func(*function)
	}{
		{"by default the wall clock is 60 s and heartbeats are 5 s apart", nil, func(f *function) {
			config := edgeruntime.DefaultFunction()
			f.g.Expect(config.WallClock.Duration()).To(Equal(time.Minute))
			f.g.Expect(config.Heartbeat.Duration()).To(Equal(5 * time.Second))
		}},
		{"the handler wants exactly the Bearer key", legacy014, func(f *function) {
			for _, wrong := range []string{"", "Bearer", "bearer " + key, "Bearer  " + key, "Bearer " + key + "x", key} {
				r := f.post(http.Header{"Authorization": {wrong}})
				f.g.Expect(r.Code).To(Equal(401), wrong)
				f.g.Expect(r.Text).To(ContainSubstring(`"error":"Unauthorized"`))
			}
			f.g.Expect(f.rows()).To(BeEmpty())
			f.g.Expect(f.post(nil).Code).To(Equal(200))
		}},
		{"in local mode nothing is authenticated", func(c *settings) { c.Local = true }, func(f *function) {
			f.registered()
			f.g.Expect(f.post(http.Header{"Authorization": {"none"}}).Status).To(Equal("started"))
		}},
		{"the function is reached with and without the gateway's prefix", legacy015, func(f *function) {
			f.g.Expect(f.send(f.t.Context(), "/functions/v1/"+f.name, nil).Status).To(Equal("started"))
			f.g.Expect(f.send(f.t.Context(), "/"+f.name, nil).Status).To(Equal("running"))
			f.g.Expect(f.send(f.t.Context(), "/functions/v1/"+f.name+"/more", nil).Code).To(Equal(404))
		}},
		{"a function that does not exist is 404", nil, func(f *function) {
			f.g.Expect(f.send(f.t.Context(), "/functions/v1/nobody", nil).Code).To(Equal(404))
		}},
		{"0.14 answers at once and starts in the background", func(c *settings) {
			legacy014(c)
			c.Hold = edgeruntime.HoldInit
		}, func(f *function) {
			r := f.post(nil)
			f.g.Expect(r.Code).To(Equal(200))
			f.g.Expect(r.HandlerAnswer).To(Equal(edgeruntime.HandlerAnswer{Status: "started", WorkerID: r.WorkerID,
				FunctionName: f.name}))
			f.eventually(func() int { return f.state().Held }).Should(Equal(1))
			f.g.Expect(f.rows()).To(BeEmpty())
			f.g.Expect(f.client.Release(f.t.Context(), f.name)).To(Succeed())
			f.eventually(f.live).Should(Equal(1))
			f.g.Expect(f.rows()[0].ID.String()).To(Equal(r.WorkerID))
		}},
		{"0.14 says running also when the start has failed", func(c *settings) {
			legacy014(c)
			c.FailStarts = 1
		}, func(f *function) {
			f.g.Expect(f.post(nil).Status).To(Equal("started"))
			f.eventually(func() int64 { return f.state().FailedStarts }).Should(Equal(int64(1)))
			f.g.Expect(f.post(nil).Status).To(Equal("running"))
			f.g.Expect(f.rows()).To(BeEmpty())
		}},
		{"0.15 awaits its start", func(c *settings) {
			legacy015(c)
			c.Hold = edgeruntime.HoldInit
		}, func(f *function) {
			answered := f.posting(nil)
			f.eventually(func() int { return f.state().Held }).Should(Equal(1))
			f.g.Expect(answered).NotTo(Receive())
			f.g.Expect(f.client.Release(f.t.Context(), f.name)).To(Succeed())
			f.g.Expect(f.answerOf(answered).Status).To(Equal("started"))
			f.g.Expect(f.live()).To(Equal(1))
		}},
		{"0.15 serialises concurrent requests", func(c *settings) {
			legacy015(c)
			c.FailStarts = 1
		}, func(f *function) {
			f.g.Expect(f.post(nil).Code).To(Equal(500)) // the isolate is active now
			f.patch(map[string]any{"hold": "init"})
			first, second := f.posting(nil), f.posting(nil)
			f.eventually(func() int64 { return f.state().Requests }).Should(Equal(int64(3)))
			f.eventually(func() int { return f.state().Held }).Should(Equal(1))
			f.g.Expect(f.client.Release(f.t.Context(), f.name)).To(Succeed())
			f.g.Expect([]string{f.answerOf(first).Status, f.answerOf(second).Status}).
				To(ConsistOf("started", "running"))
			f.g.Expect(f.live()).To(Equal(1))
		}},
		{"0.15 answers 500 when its start fails, and can start later", func(c *settings) {
			legacy015(c)
			c.FailStarts = 1
		}, func(f *function) {
			f.g.Expect(f.post(nil).Code).To(Equal(500))
			f.g.Expect(f.post(nil).Status).To(Equal("started"))
			f.g.Expect(f.state().Boots).To(Equal(int64(1)))
		}},
		{"0.15 replaces a deprecated worker in place, under a fresh id", legacy015, func(f *function) {
			first := f.post(nil)
			f.deprecate()
			second := f.post(nil)
			f.g.Expect(second.Status).To(Equal("started"))
			f.g.Expect(second.WorkerID).NotTo(Equal(first.WorkerID))
			f.g.Expect(f.state().Boots).To(Equal(int64(1)))
			f.g.Expect(f.state().Runtimes[0].ID.String()).To(Equal(first.WorkerID), "the execution id")
		}},
		{"0.14 does not replace a deprecated worker", legacy014, func(f *function) {
			f.post(nil)
			f.eventually(f.live).Should(Equal(1))
			f.deprecate()
			f.g.Expect(f.post(nil).Status).To(Equal("running"))
			f.g.Expect(f.rows()).To(HaveLen(1))
		}},
		{"published workers track the function and insert no invocation", legacy015, func(f *function) {
			f.post(nil)
			f.g.Expect(f.rows()[0].Invocation).To(BeNil())
			var mode string
			f.g.Expect(f.pool.QueryRow(f.t.Context(), `SELECT start_mode FROM pgflow.worker_functions
				WHERE function_name = $1`, f.name).Scan(&mode)).To(Succeed())
			f.g.Expect(mode).To(Equal("http"))
		}},
		{"a refused insert is silent in 0.14", legacy014, func(f *function) {
			f.registered().exec(`UPDATE pgflow.worker_functions SET handshake = 'required' WHERE function_name = $1`, f.name)
			f.g.Expect(f.post(nil).Status).To(Equal("started"))
			f.eventually(func() int64 { return f.state().FailedStarts }).Should(Equal(int64(1)))
			f.g.Expect(f.post(nil).Status).To(Equal("running"))
			f.g.Expect(f.rows()).To(BeEmpty())
		}},
		{"a refused insert is a 500 in 0.15", legacy015, func(f *function) {
			f.registered().exec(`UPDATE pgflow.worker_functions SET handshake = 'required' WHERE function_name = $1`, f.name)
			r := f.post(nil)
			f.g.Expect(r.Code).To(Equal(500))
			f.g.Expect(r.Text).To(ContainSubstring("PF001"))
			f.g.Expect(f.rows()).To(BeEmpty())
		}},
		{"workers beat", legacy015, func(f *function) {
			f.post(nil)
			first := f.rows()[0].Beat
			f.eventually(func() time.Time { return f.rows()[0].Beat }).Should(BeTemporally(">", first))
		}},
		{"a loop whose slots are busy does not beat, but lives", func(c *settings) {
			legacy015(c)
			c.StallHeartbeat = true
		}, func(f *function) {
			f.post(nil)
			first := f.rows()[0].Beat
			f.g.Consistently(func() time.Time { return f.rows()[0].Beat }).WithTimeout(300 * time.Millisecond).
				Should(BeTemporally("==", first))
			f.g.Expect(f.state().RunningWorkers()).To(HaveLen(1))
			f.patch(map[string]any{"stallHeartbeat": false})
			f.eventually(func() time.Time { return f.rows()[0].Beat }).Should(BeTemporally(">", first))
		}},
		{"a published worker whose row is gone goes on", legacy015, func(f *function) {
			f.post(nil)
			f.exec(`DELETE FROM pgflow.workers WHERE function_name = $1`, f.name)
			f.g.Consistently(func() int { return len(f.state().RunningWorkers()) }).WithTimeout(300 * time.Millisecond).
				Should(Equal(1))
		}},
		{"two cold requests boot two isolates", func(c *settings) {
			legacy015(c)
			c.Hold = edgeruntime.HoldBoot
		}, func(f *function) {
			first, second := f.posting(nil), f.posting(nil)
			f.eventually(func() int { return f.state().Held }).Should(Equal(2))
			f.g.Expect(f.client.Release(f.t.Context(), f.name)).To(Succeed())
			f.g.Expect(f.answerOf(first).Status).To(Equal("started"))
			f.g.Expect(f.answerOf(second).Status).To(Equal("started"))
			f.g.Expect(f.live()).To(Equal(2), "the two live workers that are the problem")
		}},
		{"an active isolate takes the next request", legacy015, func(f *function) {
			f.post(nil)
			f.g.Expect(f.post(nil).Status).To(Equal("running"))
			f.g.Expect(f.state().Boots).To(Equal(int64(1)))
		}},
		{"each pod boots its own", func(c *settings) {
			legacy015(c)
			c.Pods = 2
		}, func(f *function) {
			f.post(nil)
			f.g.Expect(f.post(nil).Status).To(Equal("started"))
			f.g.Expect(f.state().Boots).To(Equal(int64(2)))
			f.g.Expect(f.post(nil).Status).To(Equal("running"))
		}},
		{"an isolate's execution id is its own", legacy015, func(f *function) {
			first := f.post(nil)
			_, err := f.client.Kill(f.t.Context(), f.name)
			f.g.Expect(err).NotTo(HaveOccurred())
			f.g.Expect(f.post(nil).WorkerID).NotTo(Equal(first.WorkerID))
		}},
		{"a retired isolate works on while the next request boots another", func(c *settings) {
			legacy015(c)
			c.WallClock = edgeruntime.Millis(20 * time.Second)
		}, func(f *function) {
			f.post(nil)
			f.g.Expect(f.client.Retire(f.t.Context(), f.name)).To(Succeed())
			f.g.Expect(f.post(nil).Status).To(Equal("started"))
			f.g.Expect(f.state().RunningWorkers()).To(HaveLen(2))
			f.g.Expect(f.live()).To(Equal(2))
		}},
		{"retired at half of the wall clock, beforeunload at 90 %, killed at its end", func(c *settings) {
			legacy015(c)
			c.WallClock = edgeruntime.Millis(4 * time.Second)
		}, func(f *function) {
			f.post(nil)
			runtime := func() (r edgeruntime.RuntimeState) {
				if all := f.state().Runtimes; len(all) == 1 {
					return all[0]
				}
				return edgeruntime.RuntimeState{}
			}
			booted := runtime().Booted.Wall
			f.eventually(func() edgeruntime.IsolateState { return runtime().State }).Should(Equal(edgeruntime.Retired))
			f.g.Expect(time.Since(booted)).To(BeNumerically(">=", 2*time.Second))
			f.g.Expect(f.rows()[0].Stopped).To(BeNil())
			f.eventually(func() *time.Time { return f.rows()[0].Stopped }).ShouldNot(BeNil())
			f.g.Expect(f.rows()[0].Stopped.Sub(booted)).To(BeNumerically(">=", 3600*time.Millisecond))
			f.eventually(func() int { return len(f.state().Runtimes) }).Should(Equal(0))
			f.g.Expect(time.Since(booted)).To(BeNumerically(">=", 4*time.Second))
		}},
		{"a CPU limit kills without beforeunload", func(c *settings) {
			legacy015(c)
			c.WallClock = edgeruntime.Millis(2 * time.Second)
			c.NoBeforeUnload = true
		}, func(f *function) {
			f.post(nil)
			f.eventually(func() int { return len(f.state().Runtimes) }).Should(Equal(0))
			f.g.Expect(f.rows()[0].Stopped).To(BeNil())
		}},
		{"stop runs beforeunload, kill does not", legacy015, func(f *function) {
			first := f.post(nil)
			stopped, err := f.client.Stop(f.t.Context(), f.name)
			f.g.Expect(err).NotTo(HaveOccurred())
			f.g.Expect(stopped.Workers).To(Equal([]uuid.UUID{uuid.MustParse(first.WorkerID)}))
			f.g.Expect(stopped.Until.Mono).To(BeNumerically(">", stopped.From.Mono))
			f.g.Expect(f.rows()[0].Stopped).NotTo(BeNil())
			f.post(nil)
			_, err = f.client.Kill(f.t.Context(), f.name)
			f.g.Expect(err).NotTo(HaveOccurred())
			f.g.Expect(f.rows()[1].Stopped).To(BeNil())
			f.g.Expect(f.state().Runtimes).To(BeEmpty())
		}},
		{"the main service may send a request twice", func(c *settings) {
			legacy015(c)
			c.Duplicates = 1
		}, func(f *function) {
			f.g.Expect(f.post(nil).Code).To(Equal(200))
			f.eventually(func() int64 { return f.state().Boots }).Should(Equal(int64(2)))
			f.g.Expect(f.state().Requests).To(Equal(int64(1)))
		}},
		{"VERIFY_JWT refuses an opaque key before the function sees it", func(c *settings) { c.VerifyJWT = true },
			func(f *function) {
				r := f.post(nil)
				f.g.Expect(r.Code).To(Equal(401))
				f.g.Expect(r.Text).To(ContainSubstring(`"code":"UNAUTHORIZED_INVALID_JWT_FORMAT"`))
				r = f.post(http.Header{"Authorization": nil})
				f.g.Expect(r.Code).To(Equal(401))
				f.g.Expect(r.Text).To(ContainSubstring(`"msg":`))
				f.g.Expect(f.state().Boots).To(BeZero())
				r = f.post(http.Header{"Authorization": {"Bearer a.b.c"}})
				f.g.Expect(r.Text).To(ContainSubstring(`"error":"Unauthorized"`), "the function's own")
			}},
	}
	for _, s := range statements {
		t.Run(s.statement, func(t *testing.T) {
			t.Parallel()
			s.hold(w.function(t, s.config))
		})
	}
}

func legacy014(c *settings) { c.Kind = edgeruntime.Legacy014 }
func legacy015(c *settings) { c.Kind = edgeruntime.Legacy015 }

// deprecate marks the function's live workers and waits until their loops have drained.
func (f *function) deprecate() {
	f.t.Helper()
	f.exec(`UPDATE pgflow.workers SET deprecated_at = clock_timestamp() WHERE function_name = $1`, f.name)
	f.eventually(func() int { return len(f.state().RunningWorkers()) }).Should(Equal(0))
}
