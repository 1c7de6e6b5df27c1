package contract_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Healthy: neither stopped nor deprecated, and the heartbeat younger than heartbeat_timeout. Every reader agrees.
func TestHealthy(t *testing.T) {
	t.Parallel()
	d := shared(t)
	cases := []struct {
		name, settings, worker string
		healthy                bool
	}{
		{"just registered", "", "", true},
		{"29 s ago", "", `last_heartbeat_at = clock_timestamp() - interval '29 s'`, true},
		{"31 s ago", "", `last_heartbeat_at = clock_timestamp() - interval '31 s'`, false},
		{"31 s ago, heartbeat_timeout 1 min", `heartbeat_timeout = interval '1 min'`, `last_heartbeat_at = clock_timestamp() - interval '31 s'`, true},
		{"2 s ago, heartbeat_timeout 1 s", `heartbeat_timeout = interval '1 s'`, `last_heartbeat_at = clock_timestamp() - interval '2 s'`, false},
		{"7 s ago, beyond the debounce", "", `last_heartbeat_at = clock_timestamp() - interval '7 s'`, true},
		{"stopped", "", `stopped_at = clock_timestamp()`, false},
		{"stopping in the future", "", `stopped_at = clock_timestamp() + interval '1 h'`, false},
		{"deprecated", "", `deprecated_at = clock_timestamp()`, false},
		{"4 s in the future", "", `last_heartbeat_at = clock_timestamp() + interval '4 s'`, true},
		{"6 s in the future: the clock stepped back", "", `last_heartbeat_at = clock_timestamp() + interval '6 s'`, false},
		{"a day in the future", "", `last_heartbeat_at = clock_timestamp() + interval '1 day'`, false},
		{"started long ago", "", `started_at = clock_timestamp() - interval '1 year'`, true},
		{"in the queue of another", "", `queue_name = 'elsewhere'`, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := d.function(t, c.settings)
			w := f.worker()
			if c.worker != "" {
				f.change(w, c.worker)
			}
			s := f.state()
			if c.healthy {
				g.Expect([]any{s.phase, s.ready, s.verified}).To(Equal([]any{"ready", w, false}))
				g.Expect(s.beat).To(Equal(f.workerRow(w).beat))
				g.Expect(f.reserve()).To(Equal(reservation{decision: "ready", ready: w}))
				return
			}
			g.Expect([]any{s.phase, s.ready, s.beat}).To(Equal([]any{"retryable", "", time.Time{}}))
			g.Expect(f.reserve().decision).To(Equal("reserved"))
		})
	}
}

// Where several are healthy: a verified one first, then the newest heartbeat, then the smallest id, everywhere.
func TestHealthyOrder(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	unverified := []string{"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002", "ffffffff-0000-4000-8000-000000000003"}
	firstID, first := f.admitted()
	f.stale(first)
	secondID, second := f.admitted()
	for _, w := range unverified {
		must(t, f.insert(w, ""))
	}
	all := append([]string{first, second}, unverified...)
	// beats sets the age of each heartbeat in seconds, from one reading.
	beats := func(ages ...int) {
		t.Helper()
		now := d.now(t)
		for i, w := range all {
			f.change(w, fmt.Sprintf(`last_heartbeat_at = '%s'`, now.Add(-time.Duration(ages[i])*time.Second).Format(time.RFC3339Nano)))
		}
		f.set(`heartbeat_timeout = interval '10 min'`)
	}
	first0, second0 := first, second
	if first0 > second0 {
		first0 = second0
	}
	for _, c := range []struct {
		name string
		ages []int
		want string
	}{
		{"verified before newer unverified ones", []int{60, 1200, 1, 2, 3}, first},
		{"the newest of the verified", []int{20, 10, 1, 2, 3}, second},
		{"the newest of the verified, the other way", []int{10, 20, 1, 2, 3}, first},
		{"the smallest id of the verified", []int{10, 10, 1, 2, 3}, first0},
		{"the newest of the unverified", []int{1200, 1200, 30, 10, 20}, unverified[1]},
		{"the smallest id of the unverified", []int{1200, 1200, 30, 10, 10}, unverified[1]},
		{"the smallest id of all unverified", []int{1200, 1200, 10, 10, 10}, unverified[0]},
	} {
		beats(c.ages...)
		g.Expect(f.state().ready).To(Equal(c.want), c.name)
		g.Expect(f.state().verified).To(Equal(c.want == first || c.want == second), c.name)
		g.Expect(f.reserve()).To(Equal(reservation{decision: "ready", ready: c.want}), c.name)
		for _, id := range []string{firstID, secondID} {
			g.Expect(f.receive(id, "")).To(Equal(answer{verdict: "acknowledged", ready: c.want}), c.name)
			g.Expect(f.accept(id, newID())).To(Equal(answer{verdict: "acknowledged", ready: c.want}), c.name)
		}
	}
}

// A deprecated worker drains; its replacement is started and admitted while it still beats.
func TestDeprecatedWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	_, old := f.admitted()
	f.deprecate(old)
	f.due()
	id := f.reserved()
	f.beat(old)
	g.Expect(f.receive(id, old).verdict).To(Equal("start"))
	next := newID()
	g.Expect(f.accept(id, next)).To(Equal(answer{verdict: "accepted", ready: next}))
	f.beat(old)
	g.Expect(f.state().ready).To(Equal(next))
}
