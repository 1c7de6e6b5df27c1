package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// check returns an error unless the operator sent exactly one request for each function that had lost its worker.
func (r report) check() error {
	if loss := r.Operator.Loss; loss.Requests != loss.Functions || loss.RequestsAfter != 0 {
		return fmt.Errorf("the operator sent %d requests, and %d more after the boots, for %d functions that had lost their worker",
			loss.Requests, loss.RequestsAfter, loss.Functions)
	}
	return nil
}

// print writes the table and the machine.
func (r report) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what, operator, old, ratio string) {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", what, operator, old, ratio) // Flush reports what went wrong
	}
	times := func(what string, operator, old millis) {
		row(what, operator.String(), old.String(), ratio(float64(operator), float64(old)))
	}
	counts := func(what string, operator, old int) {
		row(what, strconv.Itoa(operator), strconv.Itoa(old), ratio(float64(operator), float64(old)))
	}
	o, t := r.Operator, r.OldTick
	row("", "operator", fmt.Sprintf("old tick, %v", oldTickInterval), "ratio")
	times(fmt.Sprintf("worker stops -> request arrives, median of %d", o.Stops.Count), o.Stops.Median, t.Stops.Median)
	times(fmt.Sprintf("worker stops -> request arrives, worst of %d", o.Stops.Count), o.Stops.Worst, t.Stops.Worst)
	times(fmt.Sprintf("%d functions lose their workers -> all requested", o.Loss.Functions), o.Loss.LastRequested, t.Loss.LastRequested)
	counts(fmt.Sprintf("requests while their boots hang %v", r.Size.Hang), o.Loss.Requests, t.Loss.Requests)
	counts("live workers when these boots have ended", o.Loss.Workers, t.Loss.Workers)
	if err := table.Flush(); err != nil {
		return err
	}
	m := r.Machine
	_, err := fmt.Fprintf(w, "\n%d cores (%s), PostgreSQL %s (fsync %s, full_page_writes %s, synchronous_commit %s), %s\n"+
		"load average: operator %s to %s, old tick %s to %s; debounce %v\n",
		m.Cores, m.CPU, m.PostgreSQL, m.Fsync, m.FullPageWrites, m.SynchronousCommit, m.Go,
		o.LoadBefore, o.LoadAfter, t.LoadBefore, t.LoadAfter, r.Size.Debounce)
	return err
}

// String is what a person reads: milliseconds.
func (m millis) String() string {
	ms := float64(m) / float64(time.Millisecond)
	if ms < 100 {
		return formatFloat(ms, 1) + " ms"
	}
	return formatFloat(ms, 0) + " ms"
}

// ratio says how many times as much old is.
func ratio(operator, old float64) string {
	if operator <= 0 {
		return "-"
	}
	return formatFloat(old/operator, 1) + "x"
}

func formatFloat(f float64, decimals int) string { return strconv.FormatFloat(f, 'f', decimals, 64) }
