package contract_test

import (
	"sync/atomic"
	"testing"
)

// window says whether the function is between reservation and readiness: a number for each such time, 0 outside.
type window struct{ number atomic.Int64 }

func (w *window) open() int64 { return w.number.Load() }
func (w *window) set(n int)   { w.number.Store(int64(n)) }

// lastID is how the last invocation was named.
func (f function) lastID() string {
	var id *string
	if err := f.q.QueryRow(f.t.Context(), `select last_invocation_id::text from pgflow.worker_functions where function_name = $1`, f.name).Scan(&id); err != nil || id == nil {
		return ""
	}
	return *id
}

// Every read between reservation and readiness shows the function pending or ready.
func TestEveryReadBetweenReservationAndReadinessShowsPendingOrReady(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	f := d.function(t, "")
	w := &window{}
	stop, ended := make(chan struct{}), make(chan int, 1)
	reader := d.connect(t)
	go func() {
		samples := 0
		for {
			select {
			case <-stop:
				ended <- samples
				return
			default:
			}
			began := w.open()
			var phase string
			if err := reader.QueryRow(t.Context(), `select phase from pgflow.worker_function_states where function_name = $1`, f.name).Scan(&phase); err != nil {
				t.Error(err)
				ended <- samples
				return
			}
			if began != 0 && began == w.open() {
				samples++
				if phase != "pending" && phase != "ready" {
					t.Errorf("a read between reservation and readiness shows %s", phase)
				}
			}
		}
	}()
	noise := make(chan struct{})
	go func() {
		defer close(noise)
		for {
			select {
			case <-stop:
				return
			default:
				_, err := f.tryReserve()
				report(t, err)
				_, err = f.tryReceive(newID(), "")
				report(t, err)
				_, err = f.tryDismiss(f.lastID(), "no")
				report(t, err)
			}
		}
	}()
	admissions := []func(id, worker string) error{
		func(id, worker string) error { _, err := f.tryAccept(id, worker); return err },
		func(id, worker string) error { return f.insert(worker, id) },
		func(_, worker string) error { return f.insert(worker, "") },
	}
	for round := range 150 {
		var id string
		for id == "" { // whoever reserves
			f.due()
			f.reserve()
			id = f.row().id
		}
		w.set(round + 1)
		f.receive(id, "")
		worker := newID()
		report(t, admissions[round%3](id, worker))
		f.receive(id, "")
		w.set(0)
		f.stop(worker)
	}
	close(stop)
	<-noise
	if samples := <-ended; samples < 50 {
		t.Errorf("only %d reads fell between", samples)
	}
}
