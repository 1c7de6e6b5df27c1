package contract_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
)

// registrationRecord is what the audit says of a registration at one moment.
type registrationRecord struct {
	Enabled       bool       `json:"enabled"`
	StartMode     string     `json:"start_mode"`
	Handshake     string     `json:"handshake"`
	LastInvokedAt *time.Time `json:"last_invoked_at"`
	InvocationID  string     `json:"invocation_id"`
	ExpiresAt     *time.Time `json:"invocation_expires_at"`
	FailedStarts  int        `json:"failed_starts"`
	LastID        string     `json:"last_invocation_id"`
	LastOutcome   string     `json:"last_outcome"`
	LastReason    string     `json:"last_outcome_reason"`
	LastOutcomeAt *time.Time `json:"last_outcome_at"`
	LastWorker    string     `json:"last_worker_id"`
}

// workerRecord is what the audit says of an inserted worker.
type workerRecord struct {
	WorkerID        string    `json:"worker_id"`
	InvocationID    string    `json:"invocation_id"`
	StartedAt       time.Time `json:"started_at"`
	LastHeartbeatAt time.Time `json:"last_heartbeat_at"`
}

type entry struct {
	Seq                            int64
	XID, Actor, Relation, Function string
	At                             time.Time
	Old, New                       []byte
	Healthy                        []string
}

type admission struct{ xid, worker string }

// judgement goes through the log in its order.
type judgement struct {
	world      *world
	admissions map[string][]admission // by invocation id
	tokenless  map[string][]string    // workers by transaction
	reserved   map[string]string      // invocation id to function
	outcomes   map[string]int
}

func (w *world) judge() {
	w.t.Helper()
	rows, err := w.d.pool.Query(w.t.Context(), `select seq, xid, actor, relation, function_name, at, old, new, healthy::text[] from audit.log order by seq`)
	must(w.t, err)
	log, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	must(w.t, err)
	j := &judgement{world: w, admissions: map[string][]admission{}, tokenless: map[string][]string{}, reserved: map[string]string{}, outcomes: map[string]int{}}
	for _, e := range log { // a worker's row and its registration's are written in one statement, in either order
		if e.Relation == "workers" && e.New != nil {
			j.admit(e)
		}
	}
	for _, e := range log {
		if e.Relation != "worker_functions" {
			continue
		}
		var before, after registrationRecord
		must(w.t, json.Unmarshal(e.Old, &before))
		must(w.t, json.Unmarshal(e.New, &after))
		if complaint := j.change(e, before, after); complaint != "" {
			w.t.Errorf("%s: entry %d of %s (%s)\nfrom %s\nto   %s\nhealthy %v", complaint, e.Seq, e.Function, e.Actor, e.Old, e.New, e.Healthy)
		}
	}
	for id, admissions := range j.admissions {
		if len(admissions) != 1 {
			w.t.Errorf("invocation %s admitted %d workers", id, len(admissions))
		}
	}
	answered := 0
	for _, ids := range w.issued {
		answered += len(ids)
	}
	g := NewWithT(w.t)
	g.Expect(answered).To(Equal(len(j.reserved)), "each reservation is answered `reserved` once")
	for id, workers := range w.accepted {
		g.Expect(workers).To(HaveLen(1), "answers `accepted` for %s", id)
		for worker := range workers {
			g.Expect(j.admissions[id]).To(HaveLen(1))
			g.Expect(j.admissions[id][0].worker).To(Equal(worker))
		}
	}
	for _, outcome := range []string{"accepted", "acknowledged", "dismissed", "disabled", "process", "expired", "unverified"} {
		if j.outcomes[outcome] == 0 {
			w.t.Errorf("nothing ended as %s: the mix of calls tests too little: %v", outcome, j.outcomes)
		}
	}
	w.t.Logf("%d changes, %d reservations, %v", len(log), len(j.reserved), j.outcomes)
}

func (j *judgement) admit(e entry) {
	var w workerRecord
	must(j.world.t, json.Unmarshal(e.New, &w))
	if !w.StartedAt.Equal(w.LastHeartbeatAt) || e.At.Sub(w.StartedAt) > time.Minute || e.At.Before(w.StartedAt) {
		j.world.t.Errorf("worker %s was born at %s with heartbeat %s, in truth %s", w.WorkerID, w.StartedAt, w.LastHeartbeatAt, e.At)
	}
	if w.InvocationID == "" {
		j.tokenless[e.XID] = append(j.tokenless[e.XID], w.WorkerID)
		return
	}
	j.admissions[w.InvocationID] = append(j.admissions[w.InvocationID], admission{e.XID, w.WorkerID})
}

// change judges one change of a registration: a complaint, or "".
func (j *judgement) change(e entry, before, after registrationRecord) string {
	kept := after
	switch e.Actor {
	case "shift":
		kept.LastInvokedAt, kept.ExpiresAt, kept.LastOutcomeAt = before.LastInvokedAt, before.ExpiresAt, before.LastOutcomeAt
		return different(before, kept, "shifting times did more")
	case "configure":
		kept.Enabled, kept.StartMode = before.Enabled, before.StartMode
		return different(before, kept, "configuring did more")
	}
	if before.InvocationID != "" && before.InvocationID != after.InvocationID {
		closed := after
		closed.InvocationID, closed.ExpiresAt, closed.LastInvokedAt = "", nil, before.LastInvokedAt
		if complaint := j.closing(e, before, closed); complaint != "" {
			return complaint
		}
		before = closed
	}
	if after.InvocationID != before.InvocationID {
		return j.reservation(e, before, after)
	}
	// The same invocation or none: a worker without one was admitted, or the throttle was cleared.
	kept.FailedStarts, kept.LastWorker, kept.LastInvokedAt, kept.LastOutcomeAt = before.FailedStarts, before.LastWorker, before.LastInvokedAt, before.LastOutcomeAt
	switch {
	case after.FailedStarts != before.FailedStarts && after.FailedStarts != 0:
		return "failed starts without a start that failed"
	case after.LastWorker != before.LastWorker && after.InvocationID == "" && after.LastOutcome == before.LastOutcome && after.LastID == before.LastID &&
		!slices.Contains(j.tokenless[e.XID], after.LastWorker):
		return "a last worker that was not admitted"
	case after.InvocationID != "" && after.ExpiresAt != before.ExpiresAt && !after.ExpiresAt.Equal(*before.ExpiresAt):
		return "expiry is fixed at reservation"
	}
	kept.ExpiresAt = before.ExpiresAt
	return different(before, kept, "changed without a reason")
}

func different(before, after registrationRecord, complaint string) string {
	a, _ := json.Marshal(before)
	b, _ := json.Marshal(after)
	if string(a) != string(b) {
		return complaint
	}
	return ""
}

// closing judges how the current invocation was closed.
func (j *judgement) closing(e entry, before, after registrationRecord) string {
	id := before.InvocationID
	if after.LastID != id {
		return "closed, and another is named as the last"
	}
	expired := !before.ExpiresAt.After(*after.LastOutcomeAt)
	failed := 0
	outcome := after.LastOutcome
	switch {
	case outcome == "accepted":
		if a := j.admissions[id]; len(a) != 1 || a[0] != (admission{e.XID, after.LastWorker}) {
			return "accepted without inserting the worker in the same transaction: a gap"
		}
		if expired {
			return "an expired invocation admitted a worker"
		}
	case outcome == "acknowledged":
		if !slices.Contains(e.Healthy, after.LastWorker) {
			return "acknowledged by a worker that is not healthy: a gap"
		}
	case outcome == "unverified":
		if !slices.Contains(j.tokenless[e.XID], after.LastWorker) {
			return "unverified without inserting the worker in the same transaction: a gap"
		}
	case outcome == "dismissed" && after.LastReason == "disabled":
		outcome, failed = "disabled", before.FailedStarts
		if before.Enabled {
			return "closed as disabled while enabled"
		}
	case outcome == "dismissed" && after.LastReason == "process":
		outcome, failed = "process", before.FailedStarts
		if before.StartMode != "process" {
			return "closed as process while http"
		}
	case outcome == "dismissed":
		failed = before.FailedStarts + 1
		if after.LastReason != "of "+id || expired {
			return "dismissed by another id, or when expired"
		}
	case outcome == "expired":
		failed = before.FailedStarts + 1
		if !expired {
			return "closed as expired before its time"
		}
	default:
		return "closed without an outcome"
	}
	j.outcomes[outcome]++
	cleared := after.FailedStarts == 0 && outcome == "expired" // by clear_throttle
	if after.FailedStarts != failed && !cleared {
		return fmt.Sprintf("failed starts should be %d", failed)
	}
	return ""
}

// reservation judges a new invocation; before is the registration with nothing current.
func (j *judgement) reservation(e entry, before, after registrationRecord) string {
	id := after.InvocationID
	if _, twice := j.reserved[id]; twice {
		return "an id reserved twice"
	}
	j.reserved[id] = e.Function
	throttle := time.Duration(float64(6*time.Second) * math.Pow(2, float64(min(before.FailedStarts, 6))))
	throttle = min(throttle, 5*time.Minute)
	switch {
	case !after.Enabled || after.StartMode != "http":
		return "reserved for a registration that is not to be started"
	case len(e.Healthy) != 0:
		return "reserved though a worker is healthy"
	case before.LastInvokedAt != nil && before.LastInvokedAt.Add(throttle).After(*after.LastInvokedAt):
		return "reserved before it was due"
	case after.ExpiresAt.Sub(*after.LastInvokedAt) != time.Minute:
		return "expiry is not one pending_timeout after the reservation"
	case e.At.Sub(*after.LastInvokedAt) > time.Minute || e.At.Before(*after.LastInvokedAt):
		return "reserved at a time that is not now"
	}
	kept := after
	kept.InvocationID, kept.ExpiresAt, kept.LastInvokedAt = before.InvocationID, before.ExpiresAt, before.LastInvokedAt
	return different(before, kept, "reserving did more")
}
