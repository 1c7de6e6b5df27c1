package observer

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5/pgxpool"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

const (
	// connectTimeout bounds each attempt to connect, whatever the connection string allows.
	connectTimeout = 10 * time.Second
	// firstReadDelay is how long the first read waits for LISTEN to work, or not.
	firstReadDelay = time.Second
	// poolSize is the most connections per database besides the one for LISTEN. One of them is kept for the observer's
	// reads, so that a queue of writes does not delay them.
	poolSize = 16
	// maxWriters is how many may write at once by TryWrite. Dismissals and proofs of LISTEN use the pool too.
	maxWriters = poolSize - 2
	// turnPatience is how long TryWrite waits. A database that is well serves all who write within it, also in a storm of
	// starts; one that is not holds its callers no longer.
	turnPatience = 25 * time.Millisecond
)

// Database is one database as its users see it. Its methods may be called concurrently, also after the last user has
// left, when the Store's calls fail and observations no longer change.
type Database struct {
	key              string
	sweepInterval    time.Duration
	unavailableAfter time.Duration
	log              logr.Logger
	clock            clock.WithDelayedExecution
	wake             func(types.NamespacedName)

	pool    *pgxpool.Pool
	store   *pgstate.Store
	writers *turns

	stop context.CancelFunc // ends run

	// changed tells the loop that there may be something new to do.
	changed chan struct{}

	mu        sync.Mutex
	functions map[string]*entry
	due       deadlines
	pending   map[string]struct{} // functions in use that are to be read at once
	dbClock   databaseClock
	health    health
	plan      plan
}

// entry is a function with at least one user.
type entry struct {
	name  string
	users map[types.NamespacedName]struct{}

	read   bool
	readAt time.Time // the database's clock at the last read
	state  *pgstate.State
	aspect aspect

	// limit is when the function needs a read by itself, by the database's clock; deadline is the same in local time,
	// and place is where that stands in the heap.
	limit, deadline time.Time
	place           int
	// soft: a heartbeat may move the limit, so it is worth a read a little earlier, which happens once: early says that
	// it did.
	soft, early bool
}

const noPlace = -1

// Observation is what is known of one function. Its times are the database's.
type Observation struct {
	// Read is whether the function has been read since its first user came. Before, nothing is known.
	Read bool
	// State is what was read last; nil: there is no such registration. It is shared: do not change it.
	State *pgstate.State
	// ReadAt is what the database's clock showed when State was read.
	ReadAt time.Time
	// Now is the database's clock now: its last reading and the monotonic time passed since. Zero before any reading.
	Now time.Time
	// Err is why the database could not be read; nil while it can. errors.Is tells pgstate's errors apart.
	Err error
	// ErrSince is for how long the database could not be read; 0 while it can.
	ErrSince time.Duration
	// Unavailable is whether ErrSince has reached Options.UnavailableAfter.
	Unavailable bool
}

// open prepares a Database; it connects to nothing. Whoever calls run sets stop.
func open(c pgstate.Connection, options Options, wake func(types.NamespacedName)) (*Database, error) {
	config, err := c.PoolConfig()
	if err != nil {
		return nil, err
	}
	config.MaxConns = poolSize
	config.MinConns, config.MinIdleConns = 0, 0
	config.MaxConnIdleTime = 5 * time.Minute
	config.PingTimeout = connectTimeout
	config.ConnConfig.ConnectTimeout = min(config.ConnConfig.ConnectTimeout, connectTimeout)
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	d := &Database{
		key:              c.Key(),
		sweepInterval:    options.SweepInterval,
		unavailableAfter: options.UnavailableAfter,
		log:              options.Log.WithValues("database", c.Identity()),
		clock:            options.Clock,
		wake:             wake,
		pool:             pool,
		store:            pgstate.NewStore(pool),
		writers:          newTurns(maxWriters, turnPatience),
		changed:          make(chan struct{}, 1),
		functions:        map[string]*entry{},
		pending:          map[string]struct{}{},
	}
	// The first read waits for LISTEN, though not for long.
	d.plan = plan{full: true, fullNotBefore: d.clock.Now().Add(firstReadDelay), backoff: readBackoff()}
	return d, nil
}

// Store returns the operations on this database, over its pool.
func (d *Database) Store() *pgstate.Store { return d.store }

// TryWrite lets user write, after waiting for a moment at most: false while as many as the pool has room for do so. Who was let calls
// done when it has written; who was not is woken when it is its turn. That turn may be taken by somebody else, so it comes
// back by itself after a while, too.
func (d *Database) TryWrite(user types.NamespacedName) (done func(), ok bool) {
	if !d.writers.take(user) {
		return nil, false
	}
	return func() { d.wakeAll(d.writers.give()) }, true
}

// Lookup returns what is known of function, without asking the database. For a function that nobody has acquired
// nothing is known of its state.
func (d *Database) Lookup(function string) Observation {
	d.mu.Lock()
	defer d.mu.Unlock()
	var o Observation
	now := d.clock.Now()
	if e, ok := d.functions[function]; ok {
		o.Read, o.State, o.ReadAt = e.read, e.state, e.readAt
	}
	if d.dbClock.read {
		o.Now = d.dbClock.at(now)
	}
	if d.health.err != nil {
		o.Err, o.ErrSince = d.health.err, max(now.Sub(d.health.since), 1)
		o.Unavailable = o.ErrSince >= d.unavailableAfter
	}
	return o
}

// Refresh has function read soon, together with whatever else is waiting, and wakes its users if it differs. It does
// not block. For a function that nobody has acquired it does nothing.
func (d *Database) Refresh(function string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.functions[function]; ok {
		d.pending[function] = struct{}{}
		d.signal()
	}
}

// notified takes note of a notification's payload: a function's name, or empty for all.
func (d *Database) notified(payload string) {
	if payload != "" {
		d.Refresh(payload)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan.full = true
	d.signal()
}

// signal wakes the loop. The caller holds mu.
func (d *Database) signal() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// add makes user a user of function, and has the function read if it is new.
func (d *Database) add(user types.NamespacedName, function string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.functions[function]
	if !ok {
		e = &entry{name: function, users: map[types.NamespacedName]struct{}{}, place: noPlace}
		d.functions[function] = e
	}
	e.users[user] = struct{}{}
	d.pending[function] = struct{}{}
	d.signal()
}

// remove takes user away from function and returns whether the database has no user left.
func (d *Database) remove(user types.NamespacedName, function string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.functions[function]; ok {
		delete(e.users, user)
		if len(e.users) == 0 {
			d.due.remove(e)
			delete(d.functions, function)
			delete(d.pending, function)
		}
	}
	return len(d.functions) == 0
}
