package observer

import (
	"errors"
	"time"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// health is whether the database can be read.
type health struct {
	err   error     // nil: it can
	since time.Time // when the first failed read of this kind in a row began, local time
	told  trouble   // what the users were last woken for
}

// trouble is a kind of failure that users show differently.
type trouble int

const (
	troubleNone        trouble = iota
	troubleTransient           // not worth telling before Options.UnavailableAfter
	troubleUnavailable         // the same, for longer
	troubleSchema
	troublePermission
	troubleAuthentication
)

// kindOf returns what kind of trouble err is, whatever its duration.
func kindOf(err error) trouble {
	switch {
	case err == nil:
		return troubleNone
	case errors.Is(err, pgstate.ErrSchemaMissing):
		return troubleSchema
	case errors.Is(err, pgstate.ErrPermission):
		return troublePermission
	case errors.Is(err, pgstate.ErrAuthentication):
		return troubleAuthentication
	default:
		return troubleTransient
	}
}

// trouble returns what the users should know now. What only a person can end is told at once.
func (h health) trouble(now time.Time, unavailableAfter time.Duration) trouble {
	kind := kindOf(h.err)
	if kind == troubleTransient && now.Sub(h.since) >= unavailableAfter {
		return troubleUnavailable
	}
	return kind
}
