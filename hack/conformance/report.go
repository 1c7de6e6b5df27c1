package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// outcome of a case.
type outcome string

const (
	passed outcome = "passed"
	failed outcome = "failed"
	// skipped: the case could not be driven; nothing is known.
	skipped outcome = "skipped"
)

// check is one thing that a case looked at.
type check struct {
	What     string `json:"what"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
	Passed   bool   `json:"passed"`
}

// result of a case.
type result struct {
	Case    string  `json:"case"`
	About   string  `json:"about"`
	Outcome outcome `json:"outcome"`
	// Reason of a case that was skipped or broke off.
	Reason  string  `json:"reason,omitempty"`
	Checks  []check `json:"checks"`
	Seconds float64 `json:"seconds"`
}

// report of a run.
type report struct {
	Function string   `json:"function"`
	Passed   int      `json:"passed"`
	Failed   int      `json:"failed"`
	Skipped  int      `json:"skipped"`
	Seconds  float64  `json:"seconds"`
	Cases    []result `json:"cases"`
}

func reportOf(function string, results []result, took time.Duration) report {
	r := report{Function: function, Cases: results, Seconds: seconds(took)}
	for _, c := range results {
		switch c.Outcome {
		case passed:
			r.Passed++
		case failed:
			r.Failed++
		case skipped:
			r.Skipped++
		}
	}
	return r
}

func seconds(d time.Duration) float64 { return d.Round(10 * time.Millisecond).Seconds() }

// write prints the report as a table or as JSON.
func (r report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CASE\tEXPECTED\tSEEN\tPASSED")
	for _, c := range r.Cases {
		name := c.Case
		for _, k := range c.Checks {
			fmt.Fprintf(table, "%s\t%s: %s\t%s\t%s\n", name, k.What, k.Expected, k.Seen, yes(k.Passed))
			name = ""
		}
		switch {
		case c.Outcome == skipped:
			fmt.Fprintf(table, "%s\t%s\tskipped: %s\t-\n", name, c.About, c.Reason)
		case c.Reason != "":
			fmt.Fprintf(table, "%s\t%s\tbroke off: %s\tNO\n", name, c.About, c.Reason)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s: %d cases passed, %d failed, %d skipped, %.1f s\n", r.Function, r.Passed, r.Failed,
		r.Skipped, r.Seconds)
	return err
}

func yes(passed bool) string {
	if passed {
		return "yes"
	}
	return "NO"
}
