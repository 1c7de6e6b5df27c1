package observer

import "time"

// databaseClock converts between the database's clock and the local one.
//
// A reading says: at some moment between sending the query and having its answer the database's clock showed Now. The
// difference of the two clocks therefore lies between now-received and now-sent. The lower of these bounds is kept,
// the highest of all readings, because the clock then errs towards being slow: a deadline that seems to have passed really
// has, and what seems left of one may be a little too much.
// The bound is given up as soon as one reading contradicts it, that is when a clock was set or has drifted.
type databaseClock struct {
	read bool
	// zero is the database's time at the local time origin, as far as known.
	origin, zero time.Time
}

// observe takes a reading: the database showed now between the local times sent and received.
func (c *databaseClock) observe(now, sent, received time.Time) {
	if c.read {
		if known := c.at(received); !known.Before(now) && !c.at(sent).After(now) {
			return
		}
	}
	c.read, c.origin, c.zero = true, received, now
}

// at returns the database's time at a local time: never later than it really was, and earlier by at most one reading's
// round trip.
func (c *databaseClock) at(local time.Time) time.Time {
	return c.zero.Add(local.Sub(c.origin))
}

// local returns the local time at which the database's clock shows t.
func (c *databaseClock) local(t time.Time) time.Time {
	return c.origin.Add(t.Sub(c.zero))
}
