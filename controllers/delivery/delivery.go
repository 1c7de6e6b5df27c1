package delivery

import (
	"context"
	"fmt"
	"time"
)

const (
	// dismissTimeout bounds one dismissal, also when the invocation has less
	// time left: that the database answers is then still worth knowing.
	dismissTimeout = 10 * time.Second
	// maxDismissals is how often a dismissal is tried; then the invocation is
	// left to expire.
	maxDismissals = 5
)

// delivery is one id on its way.
type delivery struct {
	*Dispatcher
	entry   *entry
	req     *Request
	expires time.Time // by the Dispatcher's clock
	waits   waits
}

// send sends the invocation until its fate is known, its time is over or ctx
// has ended.
func (d *delivery) send(ctx context.Context) Result {
	result := Result{InvocationID: d.req.InvocationID, Outcome: Sending}
	mayHaveArrived := false
	for {
		remaining, ok := d.acquire(ctx)
		if !ok {
			if result.Attempts == 0 {
				result.Message = "expired before it could be sent"
			}
			return ended(ctx, result, mayHaveArrived)
		}
		// Asked as late as can be: while it waited, the id may have been closed, a
		// worker may have begun, or endpoint and key may have been corrected.
		if mayHaveArrived && !d.req.Resend() {
			<-d.slots
			return ended(ctx, result, mayHaveArrived)
		}
		if !d.req.Wanted() {
			<-d.slots
			result.Outcome = Abandoned
			return result
		}
		target, ready := d.req.Target()
		if !ready {
			<-d.slots
			d.sleep(ctx, d.waits.connect.next())
			continue
		}
		where, err := invocationURL(target.Endpoint, d.req.Function)
		if err != nil {
			<-d.slots
			result.Reason, result.Message = ReasonInvalidName, err.Error()
			return d.dismiss(ctx, result)
		}
		result.Attempts++
		s := attempt(ctx, d.transport, where, target.Key, d.req.InvocationID, remaining)
		<-d.slots
		// The last attempt often has only a moment left; what the one before met
		// tells more than that.
		if !s.cut || result.Message == "" {
			result.Status, result.Message, result.Reason = s.status, s.message, s.reason
		}
		if ctx.Err() != nil {
			return ended(ctx, result, mayHaveArrived)
		}

		var wait time.Duration
		switch s.verdict {
		case verdictDelivered:
			result.Outcome = Delivered
			return result
		case verdictRefused:
			return d.dismiss(ctx, result)
		case verdictUncertain:
			mayHaveArrived = true
			wait = d.waits.uncertain.next()
		case verdictNotConnected:
			wait = d.waits.connect.next()
		}
		// Asked now as well, so that a delivery which is over does not look as if
		// it went on.
		if mayHaveArrived && !d.req.Resend() {
			return ended(ctx, result, mayHaveArrived)
		}
		d.progress(result)
		d.sleep(ctx, wait)
	}
}

// ended completes the result of a delivery that no answer has decided.
func ended(ctx context.Context, r Result, mayHaveArrived bool) Result {
	switch {
	case ctx.Err() != nil:
		r.Outcome, r.Reason = Abandoned, ""
	case mayHaveArrived:
		r.Outcome = Unknown
	default:
		r.Outcome = NotDelivered
	}
	return r
}

// progress makes what a failed attempt met known while the delivery goes on.
func (d *delivery) progress(r Result) {
	changed := d.record(d.entry, r)
	d.log.V(1).Info("attempt failed", "object", d.req.Object, "function", d.req.Function,
		"invocation", r.InvocationID, "status", r.Status, "attempts", r.Attempts, "message", r.Message)
	if changed {
		d.req.Progress(r)
	}
}

// remaining returns what is left of the invocation's time.
func (d *delivery) remaining() time.Duration {
	return d.expires.Sub(d.clock.Now())
}

// acquire waits for the right to make an attempt and returns the time that is
// left for it. It reports false when ctx has ended or no time is left.
func (d *delivery) acquire(ctx context.Context) (time.Duration, bool) {
	remaining := d.remaining()
	if ctx.Err() != nil || remaining <= 0 {
		return 0, false
	}
	timer := d.clock.NewTimer(remaining)
	defer timer.Stop()
	select {
	case d.slots <- struct{}{}:
	case <-timer.C():
		return 0, false
	case <-ctx.Done():
		return 0, false
	}
	if remaining = d.remaining(); remaining <= 0 {
		<-d.slots
		return 0, false
	}
	return remaining, true
}

// sleep waits, but not beyond the invocation's time nor after ctx has ended or
// Hurry was called.
func (d *delivery) sleep(ctx context.Context, wait time.Duration) {
	timer := d.clock.NewTimer(min(wait, d.remaining()))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-d.entry.hurry:
	case <-ctx.Done():
	}
}

// dismiss tells the database that the invocation was refused, for the result's
// reason, and completes the result. Where that fails for good the invocation is
// left to expire.
func (d *delivery) dismiss(ctx context.Context, r Result) Result {
	d.record(d.entry, r)
	for tries := 1; ; tries++ {
		err := d.dismissOnce(ctx, r.Reason)
		switch {
		case ctx.Err() != nil:
			return ended(ctx, r, true)
		case err != nil && tries < maxDismissals && d.remaining() > 0:
			d.sleep(ctx, d.waits.dismiss.next())
			continue
		case err != nil:
			d.log.Error(err, "a refused invocation could not be dismissed and is left to expire", "object", d.req.Object,
				"function", d.req.Function, "invocation", r.InvocationID, "reason", r.Reason)
		}
		r.Outcome = Refused
		return r
	}
}

// dismissOnce dismisses the invocation within dismissTimeout. It does nothing
// once ctx has ended: the end of a process dismisses nothing.
func (d *delivery) dismissOnce(ctx context.Context, reason string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, dismissTimeout)
	defer cancel()
	err := d.req.Dismiss(ctx, reason)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("dismissal not answered within %s: %w", dismissTimeout, err)
	}
	return err
}
