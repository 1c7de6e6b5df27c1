package observer

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// turns lets so many write at once and remembers who could not, in order.
type turns struct {
	slots    chan struct{} // holds those who write
	patience time.Duration // how long a turn is waited for: short for the caller, long for a database that is well

	mu      sync.Mutex
	waiting []types.NamespacedName
	inLine  map[types.NamespacedName]bool
}

func newTurns(n int, patience time.Duration) *turns {
	return &turns{slots: make(chan struct{}, n), patience: patience, inLine: map[types.NamespacedName]bool{}}
}

// take takes a turn; false: there was none in time, and user is in line for one.
func (t *turns) take(user types.NamespacedName) bool {
	select {
	case t.slots <- struct{}{}:
		return true
	default:
	}
	patience := time.NewTimer(t.patience)
	defer patience.Stop()
	select {
	case t.slots <- struct{}{}:
		return true
	case <-patience.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.inLine[user] {
		t.inLine[user] = true
		t.waiting = append(t.waiting, user)
	}
	return false
}

// give gives a turn back and returns those whom it lets go on: as many as there are turns, of which one that has thought
// better of it may let none be taken.
func (t *turns) give() []types.NamespacedName {
	<-t.slots
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(cap(t.slots)-len(t.slots), len(t.waiting))
	next := slices.Clone(t.waiting[:n])
	t.waiting = t.waiting[n:]
	for _, user := range next {
		delete(t.inLine, user)
	}
	return next
}
