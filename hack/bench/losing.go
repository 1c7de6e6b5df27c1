package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

const (
	// requestTimeout is how long requests are waited for after the last worker's stop, or the end of the hanging.
	requestTimeout = 30 * time.Second
	// logPoll is how often the stand-in is asked for what came; the times are the log's.
	logPoll = 200 * time.Millisecond
	// bootTimeout bounds the end of all boots once they are let go: five thousand register over one small pool.
	bootTimeout = 60 * time.Second
)

// log is the stand-in's log of requests, as far as it was read.
type log struct {
	client  *edgeruntime.Client
	records []edgeruntime.RequestRecord
}

// read takes in what came since it was read last.
func (l *log) read(ctx context.Context) error {
	var last int64
	if n := len(l.records); n > 0 {
		last = l.records[n-1].Seq
	}
	records, err := l.client.Requests(ctx, "", last)
	l.records = append(l.records, records...)
	return err
}

// since returns when each function was first requested since an instant, as the time passed, and how many requests
// came.
func (l *log) since(from edgeruntime.Instant) (first map[string]time.Duration, count int) {
	first = map[string]time.Duration{}
	for _, r := range l.records {
		after := time.Duration(r.Arrived.Mono - from.Mono)
		if after < 0 {
			continue
		}
		count++
		if earlier, ok := first[r.Function]; !ok || after < earlier {
			first[r.Function] = after
		}
	}
	return first, count
}

// measure measures both things on a settled scene.
func (c *scene) measure(ctx context.Context, side string, say sayer) (f figures, err error) {
	f.LoadBefore = loadAverage()
	say("%s: %d workers stop one after the other (load %s)", side, c.size.Stops, f.LoadBefore)
	if f.Stops, err = c.measureStops(ctx); err != nil {
		return figures{}, fmt.Errorf("stopping workers: %w", err)
	}
	if err := c.settle(ctx); err != nil {
		return figures{}, err
	}
	say("%s: all %d workers are lost, boots hang %v", side, c.size.Functions, c.size.Hang)
	if f.Loss, err = c.measureLoss(ctx); err != nil {
		return figures{}, fmt.Errorf("losing all workers: %w", err)
	}
	f.LoadAfter = loadAverage()
	return f, nil
}

// measureStops stops the workers of some functions, at moments that have nothing to do with anybody's clock, and
// returns how long each function then waited for its request.
func (c *scene) measureStops(ctx context.Context) (stopFigures, error) {
	stops := make(map[string]edgeruntime.Instant, c.size.Stops)
	for _, name := range c.names[:c.size.Stops] {
		if err := pause(ctx, c.size.Pause/2+rand.N(c.size.Pause)); err != nil {
			return stopFigures{}, err
		}
		stopped, err := c.client.Stop(ctx, name)
		if err != nil {
			return stopFigures{}, err
		}
		if len(stopped.Workers) != 1 {
			return stopFigures{}, fmt.Errorf("%s had %d workers to stop instead of one", name, len(stopped.Workers))
		}
		stops[name] = stopped.From
	}
	var waits []time.Duration
	err := await(ctx, requestTimeout, logPoll, func(ctx context.Context) (string, error) {
		if err := c.log.read(ctx); err != nil {
			return "", err
		}
		waits = waits[:0]
		for name, from := range stops {
			if first, _ := c.log.since(from); first[name] > 0 {
				waits = append(waits, first[name])
			}
		}
		if len(waits) == len(stops) {
			return "", nil
		}
		return fmt.Sprintf("requests for %d of %d functions whose workers stopped", len(stops)-len(waits), len(stops)), nil
	})
	if err != nil {
		return stopFigures{}, err
	}
	return stopFiguresOf(waits), nil
}

// measureLoss takes all workers away at once, with the next boots hanging, and counts what is sent for it.
func (c *scene) measureLoss(ctx context.Context) (loss lossFigures, err error) {
	hanging := c.healthy
	hanging.Hold = edgeruntime.HoldBoot
	if err := c.configureAll(ctx, hanging); err != nil {
		return lossFigures{}, err
	}
	before, err := c.client.Summary(ctx)
	if err != nil {
		return lossFigures{}, err
	}
	stopped, err := c.client.StopAll(ctx)
	if err != nil {
		return lossFigures{}, err
	}
	if len(stopped.Workers) != len(c.names) {
		return lossFigures{}, fmt.Errorf("there were %d workers to stop for %d functions", len(stopped.Workers), len(c.names))
	}
	if err := pause(ctx, time.Until(stopped.From.Wall.Add(c.size.Hang))); err != nil {
		return lossFigures{}, err
	}
	first, requests, err := c.allRequested(ctx, stopped.From)
	if err != nil {
		return lossFigures{}, err
	}
	loss = lossFiguresOf(first, requests)
	if err := c.letBootsEnd(ctx, before); err != nil {
		return lossFigures{}, err
	}
	if err := c.log.read(ctx); err != nil {
		return lossFigures{}, err
	}
	_, all := c.log.since(stopped.From)
	loss.RequestsAfter = all - requests
	loss.Workers, err = c.count(ctx, liveWorkersSQL)
	return loss, err
}

// allRequested returns when each function was first requested and how many requests came by now. Should the boots have
// hung for too short a time on this machine, it waits for what is missing.
func (c *scene) allRequested(ctx context.Context, from edgeruntime.Instant) (first map[string]time.Duration, requests int, err error) {
	err = await(ctx, requestTimeout, logPoll, func(ctx context.Context) (string, error) {
		if err := c.log.read(ctx); err != nil {
			return "", err
		}
		if first, requests = c.log.since(from); len(first) == len(c.names) {
			return "", nil
		}
		return fmt.Sprintf("requests for %d of %d functions that lost their worker", len(c.names)-len(first), len(c.names)), nil
	})
	return first, requests, err
}

// letBootsEnd lets the hanging boots go on and waits until all that began since before have ended.
func (c *scene) letBootsEnd(ctx context.Context, before edgeruntime.Summary) error {
	if err := c.configureAll(ctx, c.healthy); err != nil {
		return err
	}
	return await(ctx, bootTimeout, logPoll, func(ctx context.Context) (string, error) {
		open, err := c.openBoots(ctx, before)
		if open == 0 || err != nil {
			return "", err
		}
		return fmt.Sprintf("%d boots to end", open), nil
	})
}

// openBoots counts the boots since before that have not ended. Runtimes that take part answer when they have, and the
// operator waits for it; the old tick does not, but then a boot ends in a worker or a failure.
func (c *scene) openBoots(ctx context.Context, before edgeruntime.Summary) (open int, err error) {
	if c.healthy.Kind == edgeruntime.Participating {
		records, err := c.client.Requests(ctx, "", before.LastSeq)
		for _, r := range records {
			if r.Outcome == edgeruntime.OutcomeOpen {
				open++
			}
		}
		return open, err
	}
	now, err := c.client.Summary(ctx)
	ended := now.Registrations - before.Registrations + now.FailedStarts - before.FailedStarts
	return int(now.Boots - before.Boots - ended), err
}
