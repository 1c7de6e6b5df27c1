package observer

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// fullInterval is the least time between full reads, which are of all functions in use, and the time between them
	// while LISTEN does not work.
	fullInterval = time.Second
	// batchInterval is the least time between reads of a few functions: whatever is notified meanwhile shares one.
	batchInterval = 5 * time.Millisecond
	// batchShare keeps such reads to one part in so many of the time, and batchIntervalLimit says up to which interval.
	// A read costs the server much the same for one function as for ten, and in a storm of starts it is the busiest.
	batchShare         = 4
	batchIntervalLimit = 50 * time.Millisecond
	// batchLimit is the most functions that one such read names.
	batchLimit = 2000
	// sweepBatch is how many functions the sweep reads at a time. The sweep of many is spread over its interval: one
	// read of all would take long enough for notifications to notice.
	sweepBatch = 1000
	// heartbeatLookahead is how early a heartbeat that is about to be too old is read along with others. Most will have
	// moved on; without it each worker whose heartbeat_timeout is shorter than the sweep would be read by itself.
	heartbeatLookahead = time.Second
)

// plan is what the loop knows about its reads; local times.
type plan struct {
	full          bool      // a full read is wanted, not before fullNotBefore
	fullNotBefore time.Time // keeps full reads fullInterval apart, or as far as the backoff wants after a failure
	lastFull      time.Time // when the last one began; zero: none has
	lastBatch     time.Time
	batchTook     time.Duration // how long the last successful one took
	sweepAt       time.Time     // when the sweep goes on; only while notifications arrive
	sweep         []string      // the functions that this round has still to read
	listening     listening
	backoff       wait.Backoff
}

// listening is whether notifications arrive.
type listening int

const (
	listeningUnknown listening = iota
	listeningNo
	listeningYes
)

// readBackoff is the backoff of a run of failed reads.
func readBackoff() wait.Backoff {
	return wait.Backoff{Duration: fullInterval, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 5 * time.Second}
}

// job is one read: of the functions named.
type job struct {
	functions []string
}

// next returns the read that is due, or nil and how long there is nothing to do unless something changes.
func (d *Database) next() (*job, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()

	full := d.fullAt()
	if !full.IsZero() && !full.After(now) {
		d.plan.full, d.plan.lastFull, d.plan.fullNotBefore = false, now, now.Add(fullInterval)
		d.plan.sweep, d.plan.sweepAt = nil, now.Add(d.sweepPause())
		for name := range d.functions {
			d.pending[name] = struct{}{}
		}
		return &job{functions: d.takeBatch(now)}, 0 // what does not fit follows at once
	}
	switch {
	case d.health.err != nil:
		// Nothing but the next full read, except that users may have to be told.
		if tell := d.health.since.Add(d.unavailableAfter); tell.After(now) {
			return nil, earliest(full, tell).Sub(now)
		}
		return nil, full.Sub(now)
	case d.plan.lastFull.IsZero():
		return nil, full.Sub(now)
	}
	batch := d.batchAt()
	if !batch.IsZero() && !batch.After(now) {
		d.plan.lastBatch = now
		return &job{functions: d.takeBatch(now)}, 0
	}
	return nil, earliest(full, batch).Sub(now)
}

// fullAt returns when the next full read is to begin; zero: none is wanted.
func (d *Database) fullAt() time.Time {
	switch {
	case d.plan.full:
		return d.plan.fullNotBefore
	case d.plan.listening != listeningYes:
		return d.plan.lastFull.Add(fullInterval)
	default:
		return time.Time{}
	}
}

// batchAt returns when the next read of a few functions is to begin; zero: none is wanted.
func (d *Database) batchAt() time.Time {
	next := d.due.next()
	if d.plan.listening == listeningYes {
		next = earliest(next, d.plan.sweepAt)
	}
	soonest := d.plan.lastBatch.Add(min(max(batchInterval, batchShare*d.plan.batchTook), batchIntervalLimit))
	if len(d.pending) > 0 || !next.IsZero() && next.Before(soonest) {
		return soonest
	}
	return next
}

// takeBatch returns the functions to read now, at most batchLimit; the others stay due. None is named twice.
func (d *Database) takeBatch(now time.Time) []string {
	batch := map[string]struct{}{}
	take := func(name string) {
		if len(batch) < batchLimit {
			batch[name] = struct{}{}
			delete(d.pending, name)
		}
	}
	for name := range d.pending {
		take(name)
	}
	d.due.until(now.Add(heartbeatLookahead), func(e *entry) {
		if !e.deadline.After(now) || e.soft && !e.early {
			e.early = true
			take(e.name)
		}
	})
	if d.plan.listening == listeningYes && !d.plan.sweepAt.After(now) {
		if len(d.plan.sweep) == 0 {
			d.plan.sweep = slices.Collect(maps.Keys(d.functions))
		}
		n := min(len(d.plan.sweep), sweepBatch)
		for _, name := range d.plan.sweep[:n] {
			take(name)
		}
		d.plan.sweep, d.plan.sweepAt = d.plan.sweep[n:], now.Add(d.sweepPause())
	}
	return slices.Collect(maps.Keys(batch))
}

// sweepPause returns the time between two parts of the sweep, so that all of them take sweepInterval.
func (d *Database) sweepPause() time.Duration {
	parts := (len(d.functions) + sweepBatch - 1) / sweepBatch
	return d.sweepInterval / time.Duration(max(parts, 1))
}

// earliest returns the earlier of two times, of which zero ones mean never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
