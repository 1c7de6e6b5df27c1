package edgeruntime

import "sync"

// Outcome is how a request ended, for its sender.
type Outcome string

const (
	// OutcomeOpen: not ended yet.
	OutcomeOpen Outcome = ""
	// OutcomeAnswered: with RequestRecord.Status.
	OutcomeAnswered Outcome = "answered"
	// OutcomeLost: the work was done, the connection closed without an answer.
	OutcomeLost Outcome = "lost"
	// OutcomeDropped: closed without anything.
	OutcomeDropped Outcome = "dropped"
	// OutcomeSenderGone: the sender closed the connection first.
	OutcomeSenderGone Outcome = "sender_gone"
)

// maxLoggedAnswer bytes of an answer are kept.
const maxLoggedAnswer = 512

// RequestRecord is one request that reached the gateway.
type RequestRecord struct {
	// Seq numbers requests from 1 without gaps, in the order in which they were logged.
	Seq int64 `json:"seq"`
	// Arrived is when the gateway had read the request's header.
	Arrived  Instant `json:"arrived"`
	Function string  `json:"function"`
	Method   string  `json:"method"`
	Path     string  `json:"path"`
	// HasInvocation: the header was there; InvocationID is its value, UUID or not.
	HasInvocation bool   `json:"hasInvocation"`
	InvocationID  string `json:"invocationId,omitempty"`
	// Authorized: it carried exactly the key configured then, whoever answered.
	Authorized bool `json:"authorized"`
	// Mode that the gateway applied; empty for a function that does not exist.
	Mode    Mode    `json:"mode,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
	// Status and Answer (its first 512 bytes) were sent, or lost with OutcomeLost.
	Status int    `json:"status,omitempty"`
	Answer string `json:"answer,omitempty"`
	// Finished is zero while the Outcome is open.
	Finished Instant `json:"finished,omitzero"`
}

// requestLog keeps the newest requests.
type requestLog struct {
	mu   sync.Mutex
	size int
	ring []*RequestRecord // record seq is at (seq-1) % size
	last int64            // seq of the newest
}

func newRequestLog(size int) *requestLog { return &requestLog{size: size} }

// add numbers the record and keeps it.
func (l *requestLog) add(r *RequestRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	r.Seq = l.last
	if len(l.ring) < l.size {
		l.ring = append(l.ring, r)
		return
	}
	l.ring[int((r.Seq-1)%int64(l.size))] = r
}

// finish records how a request ended.
func (l *requestLog) finish(r *RequestRecord, outcome Outcome, a answer, at Instant) {
	text := encode(a.body)
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Outcome, r.Status, r.Finished = outcome, a.status, at
	r.Answer = string(text[:min(len(text), maxLoggedAnswer)])
}

// after returns copies of the kept requests with a Seq above after, oldest first, of one function or, when that is
// empty, of all.
func (l *requestLog) after(after int64, function string) []RequestRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := max(after, l.last-int64(len(l.ring))) + 1
	found := []RequestRecord{}
	for seq := first; seq <= l.last; seq++ {
		r := l.ring[int((seq-1)%int64(l.size))]
		if function == "" || r.Function == function {
			found = append(found, *r)
		}
	}
	return found
}

// newest returns the Seq of the newest request, 0 when there was none.
func (l *requestLog) newest() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}
