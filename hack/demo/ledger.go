package main

import (
	"errors"
	"fmt"
	"time"
)

// fact is one thing that the demo promises to show.
type fact struct{ name, promise string }

// The facts, in the order in which they are shown.
var (
	registered = fact{"registered", "applying the samples registered their functions in PostgreSQL"}
	pending    = fact{"pending", "each was shown Pending, with its invocation, while it booted"}
	ready      = fact{"ready", "each became Ready after one request, with one verified worker"}
	slowBoot   = fact{"slow boot", "a boot slower than the debounce got one request and one worker"}
	oldTick    = fact{"old behaviour", "the old cron job, same boot and debounce, got two of each or more"}
	replaced   = fact{"replaced", "a worker that ended was replaced by one request, Ready all the while"}
	killed     = fact{"killed", "the operator was killed in mid-start; the start stayed pending without it"}
	recovered  = fact{"recovered", "the operator that came next finished that start: one invocation, one worker"}

	facts = []fact{registered, pending, ready, slowBoot, oldTick, replaced, killed, recovered}
)

// ledger holds what was seen. It is used by one goroutine.
type ledger struct {
	n       *narrator
	entries map[string]entry
}

type entry struct {
	seen   bool
	detail string
}

func newLedger(n *narrator) *ledger { return &ledger{n: n, entries: map[string]entry{}} }

// enter records whether a fact was seen, with the figures that say so, and prints it.
func (l *ledger) enter(f fact, seen bool, format string, args ...any) {
	e := entry{seen, fmt.Sprintf(format, args...)}
	l.entries[f.name] = e
	l.n.verdict(e.seen, e.detail)
}

// errUnseen says that the summary has lines that were not seen.
var errUnseen = errors.New("not everything was seen")

// summary prints every fact, and returns errUnseen if one is missing. What was not reached was not seen.
func (l *ledger) summary() error {
	l.n.heading("What was seen")
	seen := 0
	for _, f := range facts {
		e, reached := l.entries[f.name]
		if !reached {
			e.detail = "not reached"
		}
		if e.seen {
			seen++
		}
		l.n.verdict(e.seen, fmt.Sprintf("%-14s %s\n                   %s", f.name, f.promise, e.detail))
	}
	l.n.say("\n%d of %d seen in %.0f s.", seen, len(facts), time.Since(l.n.begun).Seconds())
	if seen < len(facts) {
		return errUnseen
	}
	return nil
}
