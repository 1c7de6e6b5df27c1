package observer

import (
	"container/heap"
	"time"
)

// deadlines is a heap of the entries that have a deadline, the earliest first. An entry knows its place in it.
type deadlines []*entry

func (q deadlines) Len() int           { return len(q) }
func (q deadlines) Less(i, j int) bool { return q[i].deadline.Before(q[j].deadline) }
func (q deadlines) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface; use set.
func (q *deadlines) Push(x any) {
	e := x.(*entry)
	e.place = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface; use remove.
func (q *deadlines) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	last.place = noPlace
	return last
}

// set gives e the deadline at (local time); the zero time means none.
func (q *deadlines) set(e *entry, at time.Time) {
	if at.IsZero() {
		q.remove(e)
		return
	}
	e.deadline = at
	if e.place == noPlace {
		heap.Push(q, e)
		return
	}
	heap.Fix(q, e.place)
}

// remove takes e's deadline away, if it has one.
func (q *deadlines) remove(e *entry) {
	if e.place != noPlace {
		heap.Remove(q, e.place)
	}
	e.deadline = time.Time{}
}

// next returns the earliest deadline; zero: none.
func (q deadlines) next() time.Time {
	if len(q) == 0 {
		return time.Time{}
	}
	return q[0].deadline
}

// until visits the entries whose deadline is not after limit. It walks only the part of the heap that is due; visit must
// not change the heap.
func (q deadlines) until(limit time.Time, visit func(*entry)) {
	var walk func(i int)
	walk = func(i int) {
		if i >= len(q) || q[i].deadline.After(limit) {
			return
		}
		visit(q[i])
		walk(2*i + 1)
		walk(2*i + 2)
	}
	walk(0)
}
