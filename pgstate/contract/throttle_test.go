package contract_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// last_invoked_at plus debounce x 2^min(failed_starts, 6), at most 5 minutes but never less than debounce.
func TestThrottleFormula(t *testing.T) {
	t.Parallel()
	d := shared(t)
	cases := []struct {
		debounce string
		failed   int
		want     time.Duration
	}{
		{"6 s", 0, 6 * time.Second},
		{"6 s", 1, 12 * time.Second},
		{"6 s", 2, 24 * time.Second},
		{"6 s", 3, 48 * time.Second},
		{"6 s", 4, 96 * time.Second},
		{"6 s", 5, 192 * time.Second},
		{"6 s", 6, 5 * time.Minute},
		{"1 s", 5, 32 * time.Second},
		{"1 s", 6, 64 * time.Second},
		{"1 s", 7, 64 * time.Second},
		{"1 s", 2000000000, 64 * time.Second},
		{"5 s", 6, 5 * time.Minute},
		{"4.5 s", 6, 288 * time.Second},
		{"5 min", 0, 5 * time.Minute},
		{"5 min", 3, 5 * time.Minute},
		{"10 min", 0, 10 * time.Minute},
		{"10 min", 6, 10 * time.Minute},
		{"1 day", 6, 24 * time.Hour},
		{"1000 years", 6, 0}, // no overflow, simply not due for a very long time
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s failed %d", c.debounce, c.failed), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := d.function(t, "")
			f.set(fmt.Sprintf(`debounce = interval '%s', failed_starts = %d, last_invoked_at = clock_timestamp()`, c.debounce, c.failed))
			for range 2 {
				r := f.reserve()
				g.Expect(r).To(Equal(reservation{decision: "throttled", retry: r.retry}))
				g.Expect(f.state().retry).To(Equal(r.retry), "view and reserve agree")
				if c.want > 0 {
					g.Expect(r.retry.Sub(f.row().invoked)).To(Equal(c.want))
				}
			}
			if c.want > 0 {
				f.passes(fmt.Sprintf("%d ms", (c.want - 500*time.Millisecond).Milliseconds()))
				g.Expect(f.reserve().decision).To(Equal("throttled"), "half a second before it is due")
				f.passes("500 ms")
				g.Expect(f.state().retry).To(BeTemporally("<=", d.now(t)))
				g.Expect(f.reserve().decision).To(Equal("reserved"), "when it is due")
			}
		})
	}
}

// One definition: what has expired but was not closed counts already, in the view and in reserve.
func TestThrottleCountsWhatExpiredButWasNotClosed(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, `pending_timeout = interval '10 s', failed_starts = 1`)
	id := f.reserved()
	f.passes(`15 s`) // 6 s x 2^1 = 12 s have passed, 6 s x 2^2 = 24 s have not
	s := f.state()
	g.Expect([]any{s.phase, s.invocation}).To(Equal([]any{"retryable", id}), "not closed yet")
	g.Expect(s.retry).To(Equal(f.row().invoked.Add(24 * time.Second)))
	r := f.reserve()
	g.Expect(r).To(Equal(reservation{decision: "throttled", retry: s.retry}))
	g.Expect(f.row().ended()).To(Equal(row{lastID: id, outcome: "expired", failed: 2}.ended()))
	g.Expect(f.state().retry).To(Equal(s.retry), "closing it does not count it twice")
	f.unchanged(func() { g.Expect(f.reserve()).To(Equal(r)) })
	f.passes(`10 s`)
	g.Expect(f.reserve().decision).To(Equal("reserved"))
	g.Expect(f.row().failed).To(Equal(2))
}

func TestThrottleIsAtLeastFiveMinutesAfterAuthAndRoute(t *testing.T) {
	t.Parallel()
	d := shared(t)
	for reason, long := range map[string]bool{"auth_rejected": true, "route_not_found": true, "redirected": false, "http_400": false, "http_401": false} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			f := d.function(t, "")
			id := f.reserved()
			f.passes(`10 s`)
			f.dismiss(id, reason)
			r := f.reserve()
			if !long {
				g.Expect(r).To(Equal(reservation{decision: "throttled", retry: f.row().invoked.Add(12 * time.Second)}))
				f.passes(`3 s`)
				g.Expect(f.reserve().decision).To(Equal("reserved"))
				return
			}
			g.Expect(r).To(Equal(reservation{decision: "throttled", retry: r.retry}))
			g.Expect(r.retry).To(BeElementOf(f.row().invoked.Add(5*time.Minute), f.row().outcomeAt.Add(5*time.Minute)))
			g.Expect(f.state().retry).To(Equal(r.retry))
			f.passes(`285 s`)
			g.Expect(f.reserve().decision).To(Equal("throttled"))
			f.passes(`20 s`)
			g.Expect(f.reserve().decision).To(Equal("reserved"))
		})
	}
	t.Run("but never less than a longer debounce", func(t *testing.T) {
		f := d.function(t, `debounce = interval '20 min'`)
		f.dismiss(f.reserved(), "auth_rejected")
		NewWithT(t).Expect(f.reserve().retry).To(Equal(f.row().invoked.Add(20 * time.Minute)))
	})
}

// The clock stepped back: more than 5 s in the future counts as long past, up to 5 s as it is.
func TestLastInvokedAtInTheFuture(t *testing.T) {
	t.Parallel()
	d := shared(t)
	set := func(t testing.TB, ahead string) function {
		return d.function(t, `failed_starts = 4, last_invoked_at = clock_timestamp() + interval '`+ahead+`'`)
	}
	for _, ahead := range []string{"6 s", "1 h", "10 years"} {
		f := set(t, ahead)
		NewWithT(t).Expect(f.state().retry).To(BeTemporally("<=", d.now(t)), ahead)
		NewWithT(t).Expect(f.reserve().decision).To(Equal("reserved"), ahead)
		NewWithT(t).Expect(f.row().invoked).To(BeTemporally("<=", d.now(t)), ahead)
	}
	f := set(t, "4 s")
	r := f.reserve()
	NewWithT(t).Expect(r).To(Equal(reservation{decision: "throttled", retry: f.row().invoked.Add(96 * time.Second)}))
	NewWithT(t).Expect(f.state().retry).To(Equal(r.retry))
}

// An invocation reserved before the clock stepped back counts as expired: it is closed as such and the next reserved.
func TestInvocationReservedInTheFutureIsExpired(t *testing.T) {
	t.Parallel()
	d := shared(t)
	g := NewWithT(t)
	f := d.function(t, "")
	id := f.reserved()
	f.passes(`-1 h`)
	g.Expect(f.state().phase).To(Equal("retryable"))
	g.Expect(f.state().retry).To(BeTemporally("<=", d.now(t)))
	next := f.reserved()
	g.Expect(next).NotTo(Equal(id))
	g.Expect(f.row().ended()).To(Equal(row{lastID: id, outcome: "expired", failed: 1}.ended()))
	g.Expect(f.reserve().id).To(Equal(next))
}

// Liveness: whatever is lost, it is startable again after the longer of pending_timeout + heartbeat_timeout and its throttle.
func TestWhateverIsLostItIsStartableAgain(t *testing.T) {
	t.Parallel()
	d := shared(t)
	lost := map[string]func(f function){
		"the request":                       func(f function) { f.reserved() },
		"the runtime, initialising":         func(f function) { f.receive(f.reserved(), "") },
		"the worker, just admitted":         func(f function) { f.admitted() },
		"the worker, without a token":       func(f function) { f.worker() },
		"the worker, after a direct insert": func(f function) { must(f.t, f.insert(newID(), f.reserved())) },
	}
	for name, lose := range lost {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := d.function(t, "")
			lose(f)
			f.passes(`90 s`)
			NewWithT(t).Expect(f.reserve().decision).To(Equal("reserved"))
		})
	}
}
