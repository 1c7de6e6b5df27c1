package decision

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

var (
	now    = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	first  = uuid.MustParse("00000000-0000-4000-8000-000000000001")
	second = uuid.MustParse("00000000-0000-4000-8000-000000000002")
)

// observed returns an observation of a registration in a phase, changed by each of with.
func observed(phase pgstate.Phase, with ...func(*Observed)) Observed {
	o := Observed{Generation: 7, Read: true, Now: now, State: &pgstate.State{
		FunctionName: "f", Enabled: true, StartMode: "http", Handshake: "permissive", Phase: phase,
		Debounce: 6 * time.Second, PendingTimeout: time.Minute, HeartbeatTimeout: 30 * time.Second,
	}}
	switch phase {
	case pgstate.PhaseReady:
		o.State.ReadyWorker = &pgstate.Worker{ID: first, StartedAt: now.Add(-time.Minute), LastHeartbeatAt: now, Verified: true}
	case pgstate.PhasePending:
		invocation(time.Minute)(&o)
	case pgstate.PhaseDisabled:
		o.State.Enabled = false
	case pgstate.PhaseProcess:
		o.State.StartMode = "process"
	}
	for _, change := range with {
		change(&o)
	}
	return o
}

func invocation(left time.Duration) func(*Observed) {
	return func(o *Observed) { o.State.Invocation = &pgstate.Invocation{ID: first, ExpiresAt: o.Now.Add(left)} }
}
func takesPart(o *Observed)  { o.State.TakesPart = true }
func sent(o *Observed)       { o.Delivery = &Delivery{InvocationID: first} }
func suspended(o *Observed)  { o.Spec.Suspend = true }
func notReadYet(o *Observed) { o.Read, o.State = false, nil }
func missing(o *Observed)    { o.State = nil }
func retryIn(d time.Duration) func(*Observed) {
	return func(o *Observed) { o.State.RetryAt = o.Now.Add(d) }
}
func failedStarts(n int, outcome, reason string) func(*Observed) {
	return func(o *Observed) {
		o.State.FailedStarts, o.State.LastInvocationID = n, second
		o.State.LastOutcome, o.State.LastOutcomeReason, o.State.LastOutcomeAt = outcome, reason, o.Now
	}
}

// predecessor is a worker that lived so long and ended so long ago.
func predecessor(lived, ended time.Duration) func(*Observed) {
	return func(o *Observed) {
		end := o.Now.Add(-ended)
		o.State.LastWorker = &pgstate.EndedWorker{ID: second, StartedAt: end.Add(-lived), EndedAt: end}
	}
}
func problem(kind ProblemKind, reason string) func(*Observed) {
	return func(o *Observed) { o.Problem = &Problem{Kind: kind, Reason: reason, Message: "m"} }
}
func wants(m workersv1alpha1.Mirrored) func(*Observed) {
	return func(o *Observed) { o.Spec.Mirrored = m }
}
func applied(m workersv1alpha1.Mirrored) func(*Observed) {
	return func(o *Observed) { o.Previous.Applied = &m }
}
func lastKnown(status metav1.ConditionStatus, reason string) func(*Observed) {
	return func(o *Observed) {
		o.Previous.Conditions = []metav1.Condition{{Type: workersv1alpha1.ConditionReady, Status: status, Reason: reason}}
	}
}
func credentialsChanged(o *Observed) { o.CredentialsChanged = true }

func TestDecide(t *testing.T) {
	off := workersv1alpha1.Mirrored{Enabled: new(false)}
	for name, c := range map[string]struct {
		observed Observed
		want     Action
	}{
		"ready waits":              {observed(pgstate.PhaseReady), Action{Kind: Wait}},
		"ready, invocation left":   {observed(pgstate.PhaseReady, invocation(time.Minute)), Action{Kind: Reserve}},
		"disabled waits":           {observed(pgstate.PhaseDisabled), Action{Kind: Wait}},
		"disabled, invocation":     {observed(pgstate.PhaseDisabled, invocation(time.Minute)), Action{Kind: Reserve}},
		"process waits":            {observed(pgstate.PhaseProcess), Action{Kind: Wait}},
		"process, invocation":      {observed(pgstate.PhaseProcess, invocation(time.Minute)), Action{Kind: Reserve}},
		"retryable, never invoked": {observed(pgstate.PhaseRetryable), Action{Kind: Reserve}},
		"retryable, due now":       {observed(pgstate.PhaseRetryable, retryIn(0)), Action{Kind: Reserve}},
		"retryable, overdue":       {observed(pgstate.PhaseRetryable, retryIn(-time.Hour)), Action{Kind: Reserve}},
		"throttled waits":          {observed(pgstate.PhaseRetryable, retryIn(time.Millisecond)), Action{Kind: Wait}},
		"throttled, expired one":   {observed(pgstate.PhaseRetryable, retryIn(time.Minute), invocation(-time.Second)), Action{Kind: Reserve}},
		"pending, sent from here":  {observed(pgstate.PhasePending, takesPart, sent), Action{Kind: Wait}},
		"pending, not ours":        {observed(pgstate.PhasePending), Action{Kind: Wait}},
		"pending, takes part":      {observed(pgstate.PhasePending, takesPart), Action{Kind: Send, ExpiresIn: time.Minute}},

		"suspended":               {observed(pgstate.PhaseRetryable, suspended), Action{Kind: Wait}},
		"suspended, missing":      {observed(pgstate.PhaseRetryable, suspended, missing), Action{Kind: Wait}},
		"suspended, spec differs": {observed(pgstate.PhaseReady, suspended, wants(off)), Action{Kind: Wait}},
		"a problem":               {observed(pgstate.PhaseRetryable, problem(ProblemStalled, "x")), Action{Kind: Wait}},
		"not read yet":            {observed(pgstate.PhaseRetryable, notReadYet), Action{Kind: Wait}},

		"missing":               {observed(pgstate.PhaseReady, missing), Action{Kind: CreateRegistration}},
		"missing, with values":  {observed(pgstate.PhaseReady, missing, wants(off)), Action{Kind: CreateRegistration, Write: pgstate.Registration{Enabled: new(false)}}},
		"a set field":           {observed(pgstate.PhaseReady, wants(off)), Action{Kind: ApplySpec, Write: pgstate.Registration{Enabled: new(false)}}},
		"already in force":      {observed(pgstate.PhaseDisabled, wants(off)), Action{Kind: Wait}},
		"others changed it":     {observed(pgstate.PhaseReady, wants(off), applied(off)), Action{Kind: Wait}},
		"changed in the spec":   {observed(pgstate.PhaseReady, wants(off), applied(workersv1alpha1.Mirrored{Enabled: new(true)})), Action{Kind: ApplySpec, Write: pgstate.Registration{Enabled: new(false)}}},
		"names only a function": {observed(pgstate.PhaseReady, applied(off)), Action{Kind: Wait}},

		"refused, key changed":          {observed(pgstate.PhaseRetryable, retryIn(time.Minute), credentialsChanged, failedStarts(1, "dismissed", "auth_rejected")), Action{Kind: ClearThrottle}},
		"refused, same key":             {observed(pgstate.PhaseRetryable, retryIn(time.Minute), failedStarts(1, "dismissed", "auth_rejected")), Action{Kind: Wait}},
		"refused, key changed, and due": {observed(pgstate.PhaseRetryable, credentialsChanged, failedStarts(0, "dismissed", "auth_rejected")), Action{Kind: Reserve}},
		"failed, key changed":           {observed(pgstate.PhaseRetryable, retryIn(time.Minute), credentialsChanged, failedStarts(1, "dismissed", "boot failed")), Action{Kind: Wait}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Decide(c.observed)).To(Equal(c.want))
		})
	}
}

func TestReadiness(t *testing.T) {
	const (
		yes     = metav1.ConditionTrue
		no      = metav1.ConditionFalse
		unknown = metav1.ConditionUnknown
	)
	unverified := func(o *Observed) { o.State.ReadyWorker.Verified = false }
	for name, c := range map[string]struct {
		observed Observed
		ready    metav1.ConditionStatus
		reason   string
		beside   string // Reconciling, Stalled or neither
	}{
		"healthy, verified":   {observed(pgstate.PhaseReady), yes, workersv1alpha1.ReasonWorkerReady, ""},
		"healthy, unverified": {observed(pgstate.PhaseReady, unverified), yes, workersv1alpha1.ReasonWorkerUnverified, ""},

		"first start wanted":  {observed(pgstate.PhaseRetryable), no, workersv1alpha1.ReasonStarting, "Reconciling"},
		"first start pending": {observed(pgstate.PhasePending), no, workersv1alpha1.ReasonStarting, "Reconciling"},
		"retry pending":       {observed(pgstate.PhasePending, failedStarts(2, "expired", "")), no, workersv1alpha1.ReasonRetrying, "Reconciling"},
		"retry waits":         {observed(pgstate.PhaseRetryable, failedStarts(2, "expired", ""), retryIn(time.Minute)), no, workersv1alpha1.ReasonThrottled, "Reconciling"},
		"spec not applied":    {observed(pgstate.PhaseReady, wants(workersv1alpha1.Mirrored{Enabled: new(false)})), no, workersv1alpha1.ReasonSpecNotApplied, "Reconciling"},
		"missing":             {observed(pgstate.PhaseReady, missing), no, workersv1alpha1.ReasonRegistrationMissing, "Reconciling"},

		"replacement wanted":              {observed(pgstate.PhaseRetryable, predecessor(10*time.Second, 0)), yes, workersv1alpha1.ReasonReplacing, ""},
		"replacement pending":             {observed(pgstate.PhasePending, predecessor(time.Hour, 59*time.Second)), yes, workersv1alpha1.ReasonReplacing, ""},
		"replacement takes too long":      {observed(pgstate.PhasePending, predecessor(time.Hour, time.Minute)), no, workersv1alpha1.ReasonStarting, "Reconciling"},
		"predecessor ended too soon":      {observed(pgstate.PhasePending, predecessor(10*time.Second-1, 0)), no, workersv1alpha1.ReasonStarting, "Reconciling"},
		"a start failed since":            {observed(pgstate.PhasePending, predecessor(time.Hour, 0), failedStarts(1, "dismissed", "boot failed")), no, workersv1alpha1.ReasonRetrying, "Reconciling"},
		"the replacement's start expired": {observed(pgstate.PhaseRetryable, predecessor(time.Hour, 0), invocation(-1)), no, workersv1alpha1.ReasonRetrying, "Reconciling"},

		"key refused":                    {observed(pgstate.PhaseRetryable, failedStarts(1, "dismissed", "auth_rejected"), retryIn(time.Minute)), no, workersv1alpha1.ReasonAuthRejected, "Stalled"},
		"key refused, tried again":       {observed(pgstate.PhasePending, failedStarts(1, "dismissed", "auth_rejected")), no, workersv1alpha1.ReasonAuthRejected, "Stalled"},
		"key refused, then expired":      {observed(pgstate.PhaseRetryable, failedStarts(1, "dismissed", "auth_rejected"), invocation(-1)), no, workersv1alpha1.ReasonRetrying, "Reconciling"},
		"no such route":                  {observed(pgstate.PhaseRetryable, failedStarts(1, "dismissed", "route_not_found")), no, workersv1alpha1.ReasonRouteNotFound, "Stalled"},
		"redirected":                     {observed(pgstate.PhaseRetryable, failedStarts(1, "dismissed", "redirected")), no, workersv1alpha1.ReasonRefused, "Stalled"},
		"another 4xx":                    {observed(pgstate.PhaseRetryable, failedStarts(1, "dismissed", "http_418")), no, workersv1alpha1.ReasonRefused, "Stalled"},
		"refused after a healthy worker": {observed(pgstate.PhasePending, failedStarts(1, "dismissed", "auth_rejected"), predecessor(time.Hour, 0)), no, workersv1alpha1.ReasonAuthRejected, "Stalled"},

		"a worker registered since the refusal": {observed(pgstate.PhasePending, failedStarts(0, "dismissed", "auth_rejected"), func(o *Observed) {
			o.State.LastOutcomeAt = o.Now.Add(-time.Hour)
		}, predecessor(time.Minute, time.Second)), yes, workersv1alpha1.ReasonReplacing, ""},

		"disabled by spec":     {observed(pgstate.PhaseDisabled, wants(workersv1alpha1.Mirrored{Enabled: new(false)})), yes, workersv1alpha1.ReasonDisabled, ""},
		"disabled by others":   {observed(pgstate.PhaseDisabled), no, workersv1alpha1.ReasonDisabledInDatabase, "Stalled"},
		"disabled behind spec": {observed(pgstate.PhaseDisabled, wants(workersv1alpha1.Mirrored{Enabled: new(true)}), applied(workersv1alpha1.Mirrored{Enabled: new(true)})), no, workersv1alpha1.ReasonDisabledInDatabase, "Stalled"},
		"process":              {observed(pgstate.PhaseProcess), yes, workersv1alpha1.ReasonProcessManaged, ""},

		"Secret missing": {observed(pgstate.PhaseReady, problem(ProblemStalled, workersv1alpha1.ReasonSecretMissing)), no, workersv1alpha1.ReasonSecretMissing, "Stalled"},
		"duplicate":      {observed(pgstate.PhaseReady, problem(ProblemStalled, workersv1alpha1.ReasonDuplicate)), no, workersv1alpha1.ReasonDuplicate, "Stalled"},
		"database away":  {observed(pgstate.PhaseReady, problem(ProblemUnknown, workersv1alpha1.ReasonDatabaseUnavailable)), unknown, workersv1alpha1.ReasonDatabaseUnavailable, "Reconciling"},
		"not read yet":   {observed(pgstate.PhaseReady, notReadYet), unknown, workersv1alpha1.ReasonObserving, "Reconciling"},

		"suspended, was ready":   {observed(pgstate.PhaseRetryable, suspended, lastKnown(yes, "WorkerReady")), yes, workersv1alpha1.ReasonSuspended, ""},
		"suspended, was failing": {observed(pgstate.PhaseReady, suspended, lastKnown(no, "Retrying")), no, workersv1alpha1.ReasonSuspended, ""},
		"suspended, never known": {observed(pgstate.PhaseReady, suspended), unknown, workersv1alpha1.ReasonSuspended, ""},
		"suspended, a problem":   {observed(pgstate.PhaseReady, suspended, problem(ProblemStalled, "SecretMissing")), unknown, workersv1alpha1.ReasonSuspended, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			status := Status(c.observed)
			ready := meta.FindStatusCondition(status.Conditions, workersv1alpha1.ConditionReady)
			g.Expect(ready).NotTo(BeNil())
			g.Expect(ready.Status).To(Equal(c.ready))
			g.Expect(ready.Reason).To(Equal(c.reason))
			for _, beside := range []string{"Reconciling", "Stalled"} {
				condition := meta.FindStatusCondition(status.Conditions, beside)
				if beside != c.beside {
					g.Expect(condition).To(BeNil(), beside)
					continue
				}
				g.Expect(condition).NotTo(BeNil(), beside)
				g.Expect(condition.Status).To(Equal(yes))
				g.Expect(condition.Reason).To(Equal(c.reason))
			}
			checkStatus(g, c.observed, status)
		})
	}
}

func TestDrift(t *testing.T) {
	on := workersv1alpha1.Mirrored{Enabled: new(true), Debounce: &metav1.Duration{Duration: 9 * time.Second}}
	for name, c := range map[string]struct {
		observed Observed
		want     string // of the message; empty: not drifted
	}{
		"in force":                 {observed(pgstate.PhaseReady, wants(workersv1alpha1.Mirrored{Enabled: new(true)})), ""},
		"not applied yet":          {observed(pgstate.PhaseReady, wants(on)), ""},
		"changed by others":        {observed(pgstate.PhaseReady, wants(on), applied(on)), "debounce is 9s in the spec and 6s in the database"},
		"switched off":             {observed(pgstate.PhaseDisabled, wants(on), applied(on)), "enabled is true in the spec and false in the database"},
		"suspended, never applied": {observed(pgstate.PhaseReady, wants(on), suspended), "debounce is 9s in the spec and 6s in the database"},
		"spec names nothing":       {observed(pgstate.PhaseDisabled), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			condition := meta.FindStatusCondition(Status(c.observed).Conditions, workersv1alpha1.ConditionDrifted)
			if c.want == "" {
				g.Expect(condition).To(BeNil())
				return
			}
			g.Expect(condition).NotTo(BeNil())
			g.Expect(condition.Message).To(ContainSubstring(c.want))
		})
	}
}

func TestAppliedIsWhatTheSpecSetOnceItIsInForce(t *testing.T) {
	g := NewWithT(t)
	off := workersv1alpha1.Mirrored{Enabled: new(false)}
	g.Expect(Status(observed(pgstate.PhaseReady, wants(off))).Applied).To(BeNil(), "before it is written")
	g.Expect(Status(observed(pgstate.PhaseDisabled, wants(off))).Applied).To(Equal(&off), "when it is in force")
	g.Expect(Status(observed(pgstate.PhaseReady, wants(off), applied(off))).Applied).To(Equal(&off), "when others changed it")
	g.Expect(Status(observed(pgstate.PhaseReady, applied(off))).Applied).To(BeNil(), "when the spec sets it no more")
	g.Expect(Status(observed(pgstate.PhaseReady, missing, applied(off))).Applied).To(BeNil(), "when the registration is gone")
}

func TestASuccessfulAnswerIsNotWorthAWrite(t *testing.T) {
	g := NewWithT(t)
	answered := func(code int) Observed {
		return observed(pgstate.PhasePending, func(o *Observed) { o.Delivery = &Delivery{InvocationID: first, HTTPStatus: code} })
	}
	before := Status(observed(pgstate.PhasePending))
	g.Expect(WorthWriting(before, Status(answered(200)))).To(BeFalse())
	g.Expect(WorthWriting(before, Status(answered(503)))).To(BeTrue())
	g.Expect(*Status(answered(200)).Invocation.LastHTTPStatus).To(BeEquivalentTo(200), "it is shown with the next write")
}

// TestWhateverIsObserved checks on many random observations what must hold for all.
func TestWhateverIsObserved(t *testing.T) {
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		o := anyObserved(random)
		action := Decide(o)
		if o.Problem != nil || o.Spec.Suspend || !o.Read {
			g.Expect(action.Kind).To(Equal(Wait), "%+v", o)
		}
		if action.Kind == Send {
			g.Expect(o.State.TakesPart).To(BeTrue(), "%+v", o.State)
		}
		if action.Kind == Reserve && o.State.Invocation != nil {
			g.Expect(o.State.Phase).NotTo(Equal(pgstate.PhasePending))
		}
		status := Status(o)
		checkStatus(g, o, status)
		again := o
		again.Previous = status
		if o.Spec.Suspend || Decide(again).Kind == Decide(o).Kind { // else the next step is not taken from the same state
			next := Status(again)
			for i := range next.Conditions {
				next.Conditions[i].LastTransitionTime = status.Conditions[i].LastTransitionTime
			}
			g.Expect(next).To(Equal(status), "the same observation twice")
		}
	}
}

// checkStatus asserts what holds for every status.
func checkStatus(g *WithT, o Observed, status workersv1alpha1.WorkerFunctionStatus) {
	g.Expect(status.ObservedGeneration).To(Equal(o.Generation))
	for _, c := range status.Conditions {
		g.Expect(c.ObservedGeneration).To(Equal(o.Generation), c.Type)
		g.Expect(c.Reason).NotTo(BeEmpty(), c.Type)
		g.Expect(len(c.Message)).To(BeNumerically("<", 32768), c.Type)
	}
	g.Expect(meta.FindStatusCondition(status.Conditions, workersv1alpha1.ConditionReady)).NotTo(BeNil())
	g.Expect(meta.FindStatusCondition(status.Conditions, workersv1alpha1.ConditionRegistered)).NotTo(BeNil())
	reconciling := meta.IsStatusConditionTrue(status.Conditions, workersv1alpha1.ConditionReconciling)
	stalled := meta.IsStatusConditionTrue(status.Conditions, workersv1alpha1.ConditionStalled)
	g.Expect(reconciling && stalled).To(BeFalse(), "both Reconciling and Stalled")
	if meta.IsStatusConditionTrue(status.Conditions, workersv1alpha1.ConditionReady) {
		g.Expect(reconciling || stalled).To(BeFalse(), "Ready, and Reconciling or Stalled")
	}
	pending := meta.IsStatusConditionTrue(status.Conditions, workersv1alpha1.ConditionInvocationPending)
	g.Expect(status.Invocation != nil).To(Equal(pending), "status.invocation and InvocationPending")
}

func anyObserved(r *rand.Rand) Observed {
	phases := []pgstate.Phase{pgstate.PhaseProcess, pgstate.PhaseDisabled, pgstate.PhaseReady, pgstate.PhasePending, pgstate.PhaseRetryable}
	maybe := func(with func(*Observed)) func(*Observed) {
		return func(o *Observed) {
			if r.IntN(3) == 0 && o.State != nil {
				with(o)
			}
		}
	}
	any := func(options ...string) string { return options[r.IntN(len(options))] }
	seconds := func() time.Duration { return time.Duration(r.IntN(200)-100) * time.Second }
	return observed(phases[r.IntN(len(phases))],
		func(o *Observed) {
			if o.State.Phase != pgstate.PhasePending {
				maybe(invocation(seconds()))(o)
			}
			if o.State.Phase == pgstate.PhaseRetryable && o.State.Invocation != nil {
				o.State.Invocation.ExpiresAt = o.Now.Add(-time.Second)
			}
		},
		maybe(takesPart), maybe(sent), maybe(suspended), maybe(retryIn(seconds())), maybe(credentialsChanged),
		maybe(failedStarts(r.IntN(9), any("accepted", "acknowledged", "dismissed", "expired", "unverified"),
			any("", "auth_rejected", "route_not_found", "redirected", "http_400", "boom"))),
		maybe(predecessor(seconds().Abs(), seconds())),
		maybe(problem(ProblemKind(r.IntN(3)), any(workersv1alpha1.ReasonSecretMissing, workersv1alpha1.ReasonDatabaseUnavailable))),
		maybe(wants(workersv1alpha1.Mirrored{Enabled: new(r.IntN(2) == 0), Handshake: new(workersv1alpha1.HandshakeRequired)})),
		maybe(applied(workersv1alpha1.Mirrored{Enabled: new(r.IntN(2) == 0)})),
		maybe(lastKnown(metav1.ConditionTrue, "WorkerReady")),
		maybe(missing), maybe(notReadYet),
	)
}
