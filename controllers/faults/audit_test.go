package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// entry is one line of the audit.
type entry struct {
	Seq      int64
	XID      string
	At       time.Time
	Relation string
	Function string
	Old, New []byte
	Healthy  []string
}

// row is what a line says of a registration.
type row struct {
	Enabled     bool       `json:"enabled"`
	StartMode   string     `json:"start_mode"`
	ID          string     `json:"invocation_id"`
	ExpiresAt   *time.Time `json:"invocation_expires_at"`
	LastID      string     `json:"last_invocation_id"`
	Outcome     string     `json:"last_outcome"`
	Reason      string     `json:"last_outcome_reason"`
	OutcomeAt   *time.Time `json:"last_outcome_at"`
	LastWorker  string     `json:"last_worker_id"`
	WorkerID    string     `json:"worker_id"` // of workers
	HeartbeatAt time.Time  `json:"last_heartbeat_at"`
}

type admission struct{ xid, worker string }

// judgement is what the audit of a world came to.
type judgement struct {
	admissions map[string][]admission // by invocation
	tokenless  map[string][]string    // workers admitted without one, by transaction
	reserved   map[string]string      // invocation to function
	outcomes   map[string]int
	complaints []string
}

func (j *judgement) complain(format string, args ...any) {
	j.complaints = append(j.complaints, fmt.Sprintf(format, args...))
}

// judge goes through the audit and the stand-in's log of requests, and fails the test for each violation.
func (w *world) judge(ctx context.Context) *judgement {
	j := &judgement{admissions: map[string][]admission{}, tokenless: map[string][]string{}, reserved: map[string]string{}, outcomes: map[string]int{}}
	rows, err := w.pool.Query(ctx, `SELECT seq, xid, at, relation, function_name, old, new, healthy::text[] FROM audit.log ORDER BY seq`)
	if err != nil {
		w.t.Errorf("reading the audit: %v", err)
		return j
	}
	log, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		w.t.Errorf("reading the audit: %v", err)
		return j
	}
	j.audit(log)
	j.sent(w, ctx)
	for _, complaint := range j.complaints[:min(len(j.complaints), 20)] {
		w.t.Error(complaint)
	}
	w.t.Logf("audit: %d lines, %d reservations, %v, %d violations", len(log), len(j.reserved), j.outcomes, len(j.complaints))
	return j
}

func (j *judgement) audit(log []entry) {
	decode := func(e entry, raw []byte) (r row) {
		if raw != nil {
			if err := json.Unmarshal(raw, &r); err != nil {
				j.complain("line %d: %v", e.Seq, err)
			}
		}
		return r
	}
	for _, e := range log { // a worker's row and its registration's are written in one statement, in either order
		if e.Relation == "workers" {
			j.admit(e, decode(e, e.New))
		}
	}
	for _, e := range log {
		if e.Relation != "worker_functions" {
			continue
		}
		before, after := decode(e, e.Old), decode(e, e.New)
		complaint := ""
		if before.ID != "" && before.ID != after.ID {
			complaint = j.closing(e, before, after)
		}
		if after.ID != "" && after.ID != before.ID {
			complaint += j.reservation(e, before, after)
		}
		if complaint != "" {
			j.complain("%s: line %d of %s\nfrom %s\nto   %s\nhealthy %v", complaint, e.Seq, e.Function, e.Old, e.New, e.Healthy)
		}
	}
	for id, admissions := range j.admissions {
		if len(admissions) != 1 || j.reserved[id] == "" {
			j.complain("invocation %s of %q admitted %v", id, j.reserved[id], admissions)
		}
	}
}

func (j *judgement) admit(e entry, w row) {
	if w.ID == "" {
		j.tokenless[e.XID] = append(j.tokenless[e.XID], w.WorkerID)
		return
	}
	j.admissions[w.ID] = append(j.admissions[w.ID], admission{e.XID, w.WorkerID})
	if len(e.Healthy) != 0 {
		j.complain("line %d of %s: worker %s was admitted beside %v", e.Seq, e.Function, w.WorkerID, e.Healthy)
	}
}

// closing judges how the current invocation was closed: a complaint, or "".
func (j *judgement) closing(e entry, before, after row) string {
	id := before.ID
	if after.LastID != id || after.OutcomeAt == nil {
		return "an invocation vanished: a gap"
	}
	expired := !before.ExpiresAt.After(*after.OutcomeAt)
	j.outcomes[after.Outcome]++
	switch after.Outcome {
	case "accepted":
		if a := j.admissions[id]; len(a) != 1 || a[0] != (admission{e.XID, after.LastWorker}) {
			return "accepted without inserting the worker in the same transaction: a gap"
		}
		if expired {
			return "an expired invocation admitted a worker"
		}
	case "acknowledged":
		if !slices.Contains(e.Healthy, after.LastWorker) {
			return "acknowledged by a worker that is not healthy: a gap"
		}
	case "unverified":
		if !slices.Contains(j.tokenless[e.XID], after.LastWorker) {
			return "unverified without inserting the worker in the same transaction: a gap"
		}
	case "expired":
		if !expired {
			return "closed as expired before its time"
		}
	case "dismissed":
		if expired && after.Reason != "disabled" && after.Reason != "process" {
			return "dismissed when it had expired"
		}
	default:
		return "closed without an outcome"
	}
	return ""
}

// reservation judges a new invocation.
func (j *judgement) reservation(e entry, before, after row) string {
	_, twice := j.reserved[after.ID]
	j.reserved[after.ID] = e.Function
	switch {
	case twice:
		return "an id reserved twice"
	case before.ID != "" && before.ExpiresAt.After(e.At):
		return "reserved while one was pending"
	case !after.Enabled || after.StartMode != "http":
		return "reserved for a registration that is not to be started"
	case len(e.Healthy) != 0:
		return "reserved though a worker is healthy"
	}
	return ""
}

// sent judges the operators' requests: each carries the key and an invocation reserved for its function, and goes out once
// where it may not be repeated: that is for functions that do not take part.
func (j *judgement) sent(w *world, ctx context.Context) {
	legacy := map[string]bool{}
	for _, f := range w.functions {
		legacy[f.name] = f.legacy
	}
	times := map[string]int{}
	for _, r := range w.requests(ctx, "") {
		times[r.InvocationID]++
		switch {
		case j.reserved[r.InvocationID] != r.Function:
			j.complain("a request for %s carries %q, reserved for %q", r.Function, r.InvocationID, j.reserved[r.InvocationID])
		case !r.Authorized:
			j.complain("a request for %s without the key", r.Function)
		case legacy[r.Function] && times[r.InvocationID] > 1:
			j.complain("invocation %s was sent again, and %s does not take part", r.InvocationID, r.Function)
		}
	}
}
