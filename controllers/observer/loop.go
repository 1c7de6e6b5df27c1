package observer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// run observes the database until ctx ends, and closes the pool.
func (d *Database) run(ctx context.Context) {
	var listening sync.WaitGroup
	listening.Go(func() { newListener(d).run(ctx) })
	reader := &reader{pool: d.pool}
	d.loop(ctx, reader.read)
	listening.Wait()
	reader.release()
	d.pool.Close()
}

// loop makes the reads that are due, one after the other, and sleeps in between.
func (d *Database) loop(ctx context.Context, read func(context.Context, *job) (pgstate.Snapshot, error)) {
	timer := d.clock.NewTimer(fullInterval)
	defer timer.Stop()
	for ctx.Err() == nil {
		todo, pause := d.next()
		if todo == nil {
			timer.Reset(pause)
			select {
			case <-ctx.Done():
				return
			case <-d.changed:
			case <-timer.C():
			}
			d.wakeAll(d.tellTrouble())
			continue
		}
		sent := d.clock.Now()
		snapshot, err := read(ctx, todo)
		received := d.clock.Now()
		var users []types.NamespacedName
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.failed(err, sent)
		default:
			users = d.apply(todo, snapshot, sent, received)
		}
		if all := d.tellTrouble(); all != nil {
			users = all
		}
		d.wakeAll(users)
	}
}

func (d *Database) wakeAll(users []types.NamespacedName) {
	for _, user := range users {
		d.wake(user)
	}
}

// apply takes over what was read and returns the users to wake for it.
func (d *Database) apply(read *job, snapshot pgstate.Snapshot, sent, received time.Time) []types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recovered()
	d.dbClock.observe(snapshot.Now, sent, received)

	found := make(map[string]*pgstate.State, len(read.functions))
	for i := range snapshot.States {
		name := snapshot.States[i].FunctionName
		if _, ok := d.functions[name]; ok {
			state := snapshot.States[i] // a copy, or every state would keep the whole snapshot
			found[name] = &state
		}
	}
	var woken []types.NamespacedName
	update := func(e *entry) {
		if d.update(e, found[e.name], snapshot.Now) {
			for user := range e.users {
				woken = append(woken, user)
			}
		}
	}
	d.plan.batchTook = received.Sub(sent)
	for _, name := range read.functions {
		if e, ok := d.functions[name]; ok {
			update(e)
		}
	}
	return woken
}

// update gives e the state read when the database's clock showed now, and returns whether its users have to know.
func (d *Database) update(e *entry, state *pgstate.State, now time.Time) bool {
	seen := aspectOf(state, now)
	differs := !e.read || seen != e.aspect
	e.read, e.readAt, e.state, e.aspect = true, now, state, seen

	limit, soft := deadlineOf(state, now)
	if !limit.Equal(e.limit) {
		e.early = false
	}
	e.limit, e.soft = limit, soft
	if limit.IsZero() {
		d.due.remove(e)
	} else {
		d.due.set(e, d.dbClock.local(limit))
	}
	return differs
}

// failed takes note of a failed read that began at sent. The next read is a full one: nobody knows what was missed.
func (d *Database) failed(err error, sent time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.health.err == nil || kindOf(err) != kindOf(d.health.err) {
		d.health.since = sent
		d.log.Info("cannot read the database", "reason", err.Error())
	}
	d.health.err = err
	d.plan.full, d.plan.fullNotBefore = true, d.clock.Now().Add(d.plan.backoff.Step())
}

// recovered takes note of a successful read. The caller holds mu.
func (d *Database) recovered() {
	if d.health.err == nil {
		return
	}
	d.log.Info("the database can be read again", "after", d.clock.Since(d.health.since).Round(time.Millisecond).String())
	d.health.err = nil
	d.plan.backoff = readBackoff()
}

// tellTrouble returns all users when they have to know of a trouble or of its end, and nil otherwise.
func (d *Database) tellTrouble() []types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	trouble := d.health.trouble(d.clock.Now(), d.unavailableAfter)
	if trouble == troubleTransient || trouble == d.health.told {
		return nil
	}
	d.health.told = trouble
	var users []types.NamespacedName
	for _, e := range d.functions {
		users = slices.AppendSeq(users, maps.Keys(e.users))
	}
	return users
}

// setListening takes note of whether notifications arrive, and if not why. When they do (again), everything is read:
// what happened before went unnoticed.
func (d *Database) setListening(now listening, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.plan.listening == now {
		return
	}
	d.plan.listening = now
	if now == listeningYes {
		d.log.Info("notifications arrive")
		d.plan.full = true
	} else {
		d.log.Info("no notifications: reading everything each second", "reason", err.Error())
	}
	if d.plan.lastFull.IsZero() {
		d.plan.fullNotBefore = d.clock.Now() // what the first read waited for
	}
	d.signal()
}
