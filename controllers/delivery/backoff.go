package delivery

import (
	"math/rand/v2"
	"time"
)

// backoff is a wait that doubles up to a limit.
type backoff struct {
	wait, limit time.Duration
}

// next returns the present wait, spread by a fifth to both sides so that
// functions which failed together do not come back together, and doubles it.
func (b *backoff) next() time.Duration {
	spread := 0.8 + 0.4*rand.Float64()
	wait := time.Duration(float64(b.wait) * spread)
	b.wait = min(2*b.wait, b.limit)
	return wait
}
