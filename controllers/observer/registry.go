package observer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// errStopped is returned by [Registry.Acquire] once the registry has been told to stop.
var errStopped = errors.New("the observer is shutting down")

// Options are the settings of a Registry. The zero value of each field stands for its default.
type Options struct {
	// Log receives one line per change of a database's condition. Default: nothing is logged.
	Log logr.Logger
	// Clock measures intervals; it decides nothing about the database's times. Default: the real clock.
	Clock clock.WithDelayedExecution
	// SweepInterval is the time in which every function in use is read once, in parts, while LISTEN works. Default 10 s.
	SweepInterval time.Duration
	// UnavailableAfter is how long reads may fail before users are told. Default 30 s.
	UnavailableAfter time.Duration
}

// Registry holds the databases in use and who uses them. Its methods may be called concurrently.
type Registry struct {
	options Options
	wake    func(types.NamespacedName)

	mu        sync.Mutex
	stopped   bool
	databases map[string]*Database // by Connection.Key
	users     map[types.NamespacedName]use

	running sync.WaitGroup
}

// use is what one user holds.
type use struct {
	database *Database
	function string
}

// NewRegistry returns an empty Registry. It calls wake for each user whose function needs attention, from the
// goroutines of the observers, one call at a time per database; wake must not block, and may call the Registry.
func NewRegistry(options Options, wake func(types.NamespacedName)) *Registry {
	if options.Log.GetSink() == nil {
		options.Log = logr.Discard()
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.SweepInterval == 0 {
		options.SweepInterval = 10 * time.Second
	}
	if options.UnavailableAfter == 0 {
		options.UnavailableAfter = 30 * time.Second
	}
	return &Registry{
		options:   options,
		wake:      wake,
		databases: map[string]*Database{},
		users:     map[types.NamespacedName]use{},
	}
}

// Start blocks until ctx ends, then closes every database and returns when all goroutines and connections have ended.
// Databases are observed from their first Acquire on, also before Start.
func (r *Registry) Start(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	r.stopped = true
	for _, d := range r.databases {
		d.stop()
	}
	r.mu.Unlock()
	r.running.Wait()
	return nil
}

// Acquire makes user a user of function in the database that c leads to, and returns that database without waiting
// for it to be reachable. Called again it changes nothing; called with another connection or function it moves the user
// there. While Lookup says that the function has not been read, its users are woken once it has. The error says
// that the registry has stopped, or why c cannot be used.
func (r *Registry) Acquire(user types.NamespacedName, c pgstate.Connection, function string) (*Database, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, errStopped
	}
	key := c.Key()
	old, had := r.users[user]
	if had && old.database.key == key && old.function == function {
		return old.database, nil
	}
	d, ok := r.databases[key]
	if !ok {
		var err error
		if d, err = open(c, r.options, r.wake); err != nil {
			return nil, fmt.Errorf("opening the database: %w", err)
		}
		var ctx context.Context
		ctx, d.stop = context.WithCancel(context.Background())
		r.databases[key] = d
		r.running.Go(func() { d.run(ctx) })
	}
	d.add(user, function)
	r.users[user] = use{database: d, function: function}
	if had {
		r.leave(user, old)
	}
	return d, nil
}

// Held returns the database that user holds now; false: none.
func (r *Registry) Held(user types.NamespacedName) (*Database, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, ok := r.users[user]
	return held.database, ok
}

// Release ends what user holds, if anything. A database that has lost its last user closes in the background; calls
// of its Store that are under way are completed, later ones fail.
func (r *Registry) Release(user types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held, ok := r.users[user]; ok {
		delete(r.users, user)
		r.leave(user, held)
	}
}

// leave takes user away from what it held and closes the database after its last user. The caller holds mu.
func (r *Registry) leave(user types.NamespacedName, held use) {
	if held.database.remove(user, held.function) {
		delete(r.databases, held.database.key)
		held.database.stop()
	}
}
