package faults_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

const (
	stressFunctions = 200
	stressTime      = 20 * time.Second
	// stressHands disturb at once; stressPause is between two of each one's random events, stressKill between two kills
	// of an operator.
	stressHands = 4
	stressPause = 30 * time.Millisecond
	stressKill  = 3 * time.Second
	// stressSettle is how long all functions may take to become ready when nothing fails any more: several failed starts
	// in a row have doubled the throttle several times.
	stressSettle = 2 * time.Minute
)

// Some two hundred functions whose workers end, are killed, start slowly or not at all, behind a gateway that fails, and
// operators that are killed again and again; in the end nobody was started twice and everything is ready. The seed of a
// failed run repeats its events: PGFLOW_FAULTS_SEED.
func TestStress(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PGFLOW_FAULTS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, setting{edge: func(o *edgeruntime.Options) { o.BatchHeartbeats = true }})
	var all []*function
	for i := range stressFunctions {
		s := spec{pendingTimeout: 5 * time.Second, heartbeat: 6 * time.Second, required: i%4 == 0}
		kind, boot := edgeruntime.Participating, time.Duration(random.IntN(300))*time.Millisecond
		if i%4 == 1 {
			kind = edgeruntime.Legacy015
		}
		s.runtime = func(c *edgeruntime.FunctionConfig) {
			c.Kind, c.Boot, c.Init = kind, edgeruntime.Millis(boot), edgeruntime.Millis(boot/2)
			c.Pods = 1 + i%2
		}
		all = append(all, w.function(t, name("stress", i), s))
	}
	pair := []*operator{w.operator(), w.operator()}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var watching sync.WaitGroup
	watching.Go(func() { watch(ctx, w, all) })
	ends := time.Now().Add(stressTime)
	var disturbing sync.WaitGroup
	var events atomic.Int64
	for i := range stressHands {
		disturbing.Go(func() {
			hand := rand.New(rand.NewPCG(seed, uint64(i)+1))
			for time.Now().Before(ends) {
				disturb(ctx, hand, all[hand.IntN(len(all))])
				events.Add(1)
				pause(ctx, time.Duration(hand.Int64N(int64(2*stressPause))))
			}
		})
	}
	kills := 0
	for ; time.Until(ends) > stressKill; kills++ {
		pause(ctx, stressKill)
		i := random.IntN(len(pair))
		pair[i].kill()
		pair[i] = w.operator()
	}
	disturbing.Wait()
	for _, f := range all {
		f.patch(map[string]any{"mode": edgeruntime.ModeServe, "modeCount": 0, "failStarts": 0, "initMs": 0, "duplicates": 0})
	}
	settling := time.Now()
	w.g.Eventually(func() error {
		for _, f := range all {
			if err := f.shown(); err != nil {
				return err
			}
		}
		return nil
	}).WithTimeout(stressSettle).WithPolling(500 * time.Millisecond).Should(Succeed())
	stop()
	watching.Wait()
	for _, f := range all {
		w.g.Expect(f.state().RunningWorkers()).NotTo(BeEmpty(), f.name)
	}
	t.Logf("%d events, %d operators killed, settled in %v, %d requests", events.Load(), kills,
		time.Since(settling).Round(time.Millisecond), len(w.requests(t.Context(), "")))
}

// pause sets the pace of a disturbance; nothing relies on what happens meanwhile.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// disturb does something to a function.
func disturb(ctx context.Context, random *rand.Rand, f *function) {
	patch := func(fields map[string]any) error { return f.runtime.Patch(ctx, f.name, fields) }
	once := func(mode edgeruntime.Mode, status int) error {
		return patch(map[string]any{"mode": mode, "modeCount": 1, "status": status})
	}
	var err error
	switch random.IntN(14) {
	case 0, 1, 2, 3, 4:
		_, err = f.runtime.Stop(ctx, f.name)
	case 5, 6:
		_, err = f.runtime.Kill(ctx, f.name)
	case 7:
		err = f.runtime.Retire(ctx, f.name)
	case 8:
		err = patch(map[string]any{"failStarts": 1})
	case 9:
		err = patch(map[string]any{"initMs": 1500})
	case 10:
		err = once(edgeruntime.ModeStatus, []int{500, 502, 503}[random.IntN(3)])
	case 11:
		err = once(edgeruntime.ModeDrop, 500)
	case 12:
		err = once(edgeruntime.ModeLost, 500)
	case 13:
		if !f.legacy { // two copies start two legacy workers, whoever sent the request
			err = patch(map[string]any{"duplicates": random.IntN(2)})
		}
	}
	if err != nil {
		f.world.t.Error(err)
	}
}

// watch looks, as long as it lasts, that no function that takes part has two workers whose loops run.
func watch(ctx context.Context, w *world, all []*function) {
	for ctx.Err() == nil {
		for _, f := range all {
			if f.legacy {
				continue
			}
			state, err := w.runtime.State(ctx, f.name)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				w.t.Error(err)
				return
			}
			if running := state.RunningWorkers(); len(running) > 1 {
				w.t.Errorf("%s has %d live workers: %+v", f.name, len(running), running)
			}
		}
	}
}
