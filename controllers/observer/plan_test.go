package observer

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// bench is a Database without a database: the test makes up what is read, and both clocks.
type bench struct {
	*WithT
	*Database
	clock *testingclock.FakeClock
	ahead time.Duration // of the database's clock
}

func newBench(t *testing.T, functions ...string) *bench {
	b := &bench{WithT: NewWithT(t), clock: testingclock.NewFakeClock(time.Now()), ahead: 3 * time.Hour}
	b.Database = &Database{
		sweepInterval:    10 * time.Second,
		unavailableAfter: 30 * time.Second,
		clock:            b.clock,
		changed:          make(chan struct{}, 1),
		functions:        map[string]*entry{},
		pending:          map[string]struct{}{},
		plan:             plan{full: true, fullNotBefore: b.clock.Now(), listening: listeningYes, backoff: readBackoff()},
	}
	for _, function := range functions {
		b.add(user(function), function)
	}
	return b
}

// now is the database's clock.
func (b *bench) now() time.Time { return b.clock.Now().Add(b.ahead) }

// answer takes a job's answer over at once.
func (b *bench) answer(todo *job, states ...pgstate.State) []types.NamespacedName {
	return b.apply(todo, pgstate.Snapshot{Now: b.now(), States: states}, b.clock.Now(), b.clock.Now())
}

// read expects a job to be due.
func (b *bench) read() *job {
	todo, _ := b.next()
	b.Expect(todo).NotTo(BeNil())
	return todo
}

// idle expects nothing to be due for exactly d.
func (b *bench) idle(d time.Duration) {
	todo, pause := b.next()
	b.Expect(todo).To(BeNil())
	b.Expect(pause).To(Equal(d))
}

func TestOverdueStateIsNoHotLoop(t *testing.T) {
	t.Parallel()
	b := newBench(t, "f")
	overdue := map[string]pgstate.State{
		"due for long":         {Phase: pgstate.PhaseRetryable, RetryAt: b.now().Add(-time.Hour)},
		"due now":              {Phase: pgstate.PhaseRetryable, RetryAt: b.now()},
		"due without throttle": {Phase: pgstate.PhaseRetryable},
		"expired, unnoticed": {Phase: pgstate.PhasePending,
			Invocation: &pgstate.Invocation{ID: uuid.New(), ExpiresAt: b.now()}},
		"heartbeat at the limit": {Phase: pgstate.PhaseReady, HeartbeatTimeout: time.Second,
			ReadyWorker: &pgstate.Worker{ID: uuid.New(), LastHeartbeatAt: b.now().Add(-time.Second)}},
		"heartbeat long past": {Phase: pgstate.PhaseRetryable, LastWorker: &pgstate.EndedWorker{ID: uuid.New()}},
		"replaced long ago": {Phase: pgstate.PhaseRetryable, PendingTimeout: time.Second,
			LastWorker: &pgstate.EndedWorker{ID: uuid.New(), EndedAt: b.now().Add(-time.Second)}},
	}
	for name, state := range overdue {
		state.FunctionName = "f"
		b.remove(user("f"), "f")
		b.add(user("f"), "f")
		b.plan.full = true
		b.clock.Step(fullInterval)
		b.ahead -= fullInterval
		todo := b.read()
		b.Expect(b.answer(todo, state)).To(ConsistOf(user("f")), name)
		b.idle(10 * time.Second)
		b.Expect(b.answer(todo, state)).To(BeEmpty(), name)
	}
}

func TestDeadlineIsReadExactlyThenAndOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "f")
	s := pgstate.State{FunctionName: "f", Phase: pgstate.PhaseRetryable, RetryAt: b.now().Add(3 * time.Second)}
	b.answer(b.read(), s)
	b.idle(3 * time.Second)
	b.clock.Step(3*time.Second - time.Nanosecond)
	b.idle(time.Nanosecond)
	b.clock.Step(time.Nanosecond)
	todo := b.read()
	b.Expect(todo.functions).To(ConsistOf("f"))
	b.Expect(b.answer(todo, s)).To(ConsistOf(user("f")), "it is due now")
	b.idle(7 * time.Second) // the sweep
}

func TestHeartbeatsAboutToBeTooOldAreReadTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	ready := func(name string, left time.Duration) pgstate.State {
		return pgstate.State{FunctionName: name, Phase: pgstate.PhaseReady, HeartbeatTimeout: 5 * time.Second,
			ReadyWorker: &pgstate.Worker{LastHeartbeatAt: b.now().Add(left - 5*time.Second)}}
	}
	b.answer(b.read(), ready("a", time.Second), ready("b", 1900*time.Millisecond), ready("c", 3*time.Second))
	b.clock.Step(time.Second)
	todo := b.read()
	b.Expect(todo.functions).To(ConsistOf("a", "b"))
	// b has not beaten since: it is read once more, when that makes it unhealthy, and not before.
	b.Expect(b.answer(todo, ready("a", 5*time.Second), ready("b", 900*time.Millisecond))).To(BeEmpty())
	b.idle(900 * time.Millisecond)
	b.clock.Step(batchInterval)
	b.Refresh("a")
	b.Expect(b.read().functions).To(ConsistOf("a"))
}

func TestNotificationsDuringAReadAreReadAfterIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "f")
	todo := b.read()
	b.notified("f")
	b.answer(todo)
	b.Expect(b.read().functions).To(ConsistOf("f"))
	b.notified("f")
	b.notified("nobody's")
	b.idle(batchInterval)
	b.clock.Step(batchInterval)
	b.Expect(b.read().functions).To(ConsistOf("f"))
	b.notified("")
	b.notified("")
	b.idle(fullInterval - batchInterval)
	b.clock.Step(fullInterval - batchInterval)
	b.Expect(b.read().functions).To(ConsistOf("f"))
	b.idle(10 * time.Second)
}

func TestBatchesThatTakeLongAreFurtherApart(t *testing.T) {
	t.Parallel()
	b := newBench(t, "f")
	b.answer(b.read())
	for took, apart := range map[time.Duration]time.Duration{
		time.Microsecond:      batchInterval,
		10 * time.Millisecond: batchShare * 10 * time.Millisecond,
		time.Second:           batchIntervalLimit,
	} {
		b.clock.Step(batchIntervalLimit)
		b.notified("f")
		todo, sent := b.read(), b.clock.Now()
		b.apply(todo, pgstate.Snapshot{Now: b.now()}, sent, sent.Add(took))
		b.notified("f")
		b.idle(apart)
	}
}

func TestFailedReadsBackOffAndEndInAFullOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, "f", "quiet")
	b.answer(b.read())
	b.notified("f")
	b.read()
	unreachable := errors.New("unreachable")
	began := b.clock.Now()
	b.failed(unreachable, began)
	attempts := 0
	for b.clock.Since(began) < 30*time.Second {
		b.notified("f") // is no reason to ask more often
		b.Expect(b.tellTrouble()).To(BeEmpty())
		todo, pause := b.next()
		if todo != nil {
			attempts++
			b.Expect(todo.functions).To(ConsistOf("f", "quiet"))
			b.failed(unreachable, b.clock.Now())
			continue
		}
		b.Expect(pause).To(BeNumerically("<=", 6*time.Second))
		b.clock.Step(pause)
	}
	b.Expect(attempts).To(BeNumerically("<=", 9))
	o := b.Lookup("f")
	b.Expect(o.Err).To(MatchError(unreachable))
	b.Expect(o.ErrSince).To(Equal(30*time.Second), "the loop gets up exactly then")
	b.Expect(o.Unavailable).To(BeTrue())
	b.Expect(b.tellTrouble()).To(ConsistOf(user("f"), user("quiet")))
	b.Expect(b.tellTrouble()).To(BeEmpty())

	_, pause := b.next()
	b.clock.Step(pause)
	todo := b.read()
	b.Expect(todo.functions).To(ConsistOf("f", "quiet"))
	b.Expect(b.answer(todo)).To(BeEmpty(), "nothing has changed")
	b.Expect(b.tellTrouble()).To(ConsistOf(user("f"), user("quiet")))
	b.Expect(b.tellTrouble()).To(BeEmpty())
	b.Expect(b.Lookup("f").Err).NotTo(HaveOccurred())
}

func TestWhatAPersonMustMendIsToldAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "f")
	b.read()
	for _, err := range []error{pgstate.ErrSchemaMissing, pgstate.ErrPermission, pgstate.ErrAuthentication} {
		b.failed(err, b.clock.Now())
		b.Expect(b.tellTrouble()).To(ConsistOf(user("f")))
		b.failed(err, b.clock.Now())
		b.Expect(b.tellTrouble()).To(BeEmpty())
		b.clock.Step(time.Hour)
		b.Expect(b.tellTrouble()).To(BeEmpty())
	}
	b.failed(pgstate.ErrUnavailable, b.clock.Now())
	b.Expect(b.tellTrouble()).To(BeEmpty(), "not yet")
	b.Expect(b.Lookup("f").Unavailable).To(BeFalse())
	b.clock.Step(30 * time.Second)
	b.Expect(b.tellTrouble()).To(ConsistOf(user("f")))
}

func TestHeartbeatsAreNotLookedAt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "f")
	worker := uuid.New()
	state := func(beat time.Time) pgstate.State {
		return pgstate.State{FunctionName: "f", Phase: pgstate.PhaseReady, HeartbeatTimeout: time.Minute,
			ReadyWorker: &pgstate.Worker{ID: worker, LastHeartbeatAt: beat},
			LastWorker:  &pgstate.EndedWorker{ID: worker, EndedAt: beat.Add(time.Minute)}}
	}
	todo := b.read()
	b.Expect(b.answer(todo, state(b.now()))).NotTo(BeEmpty())
	b.clock.Step(5 * time.Second)
	b.Expect(b.answer(todo, state(b.now()))).To(BeEmpty())
}

func TestSweepOfManyIsSpread(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 9_500
	for i := range n {
		function := strconv.Itoa(i)
		b.add(user(function), function)
	}
	for len(b.pending) > 0 || b.plan.lastFull.IsZero() {
		b.answer(b.read())
		b.clock.Step(batchInterval)
	}
	b.plan.sweepAt = b.clock.Now().Add(b.sweepPause())
	for range 2 {
		seen := map[string]bool{}
		for range 10 {
			b.idle(time.Second)
			b.clock.Step(time.Second)
			functions := b.read().functions
			b.Expect(len(functions)).To(BeNumerically("<=", sweepBatch))
			for _, function := range functions {
				seen[function] = true
			}
			b.answer(&job{functions: functions})
		}
		b.Expect(seen).To(HaveLen(n))
	}
}

func TestWithoutNotificationsEverythingIsReadEachSecond(t *testing.T) {
	t.Parallel()
	b := newBench(t, "f")
	b.answer(b.read())
	b.idle(10 * time.Second)
	b.log = logr.Discard()
	b.setListening(listeningNo, errors.New("cut"))
	b.idle(time.Second)
	b.clock.Step(time.Second)
	b.Expect(b.read().functions).To(ConsistOf("f"))
	b.idle(time.Second)
	b.setListening(listeningYes, nil)
	b.clock.Step(time.Second)
	b.Expect(b.read().functions).To(ConsistOf("f"), "what happened before")
	b.idle(10 * time.Second)
}

func TestAFullReadIsOfAllInUseInBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 2*batchLimit + 1
	for i := range n {
		function := strconv.Itoa(i)
		b.add(user(function), function)
	}
	seen := map[string]bool{}
	for range 3 {
		todo := b.read()
		b.Expect(len(todo.functions)).To(BeNumerically("<=", batchLimit))
		for _, function := range todo.functions {
			seen[function] = true
		}
		b.Expect(b.answer(todo)).To(HaveLen(len(todo.functions)), "each is read for the first time")
		b.clock.Step(batchInterval)
	}
	b.Expect(seen).To(HaveLen(n))
	todo, _ := b.next()
	b.Expect(todo).To(BeNil())
}
