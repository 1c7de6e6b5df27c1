package edge_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
)

// TestScenarios has one entry per promise of the module, kept with each generation of the library.
func TestScenarios(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range scenarios {
		t.Run(s.promise, func(t *testing.T) {
			t.Parallel()
			for _, generation := range []string{"0.14", "0.15", "0.17"} {
				t.Run(generation, func(t *testing.T) {
					t.Parallel()
					s.hold(w.function(t, generation))
				})
			}
		})
	}
}

var scenarios = []struct {
	promise string
	hold    func(*function)
}{
	{"a valid id is accepted once the library is ready", func(f *function) {
		i := f.registered().boot()
		i.set(map[string]any{"hold": true})
		id := f.reserve()
		answered := i.posting(with(id))
		f.eventually(func() int { return i.state().Compilations }).Should(Equal(1))
		f.g.Expect(f.rows()).To(BeEmpty())
		f.g.Expect(answered).NotTo(Receive())
		i.set(map[string]any{"hold": false})
		f.g.Expect(f.answerOf(answered)).To(Equal(reply{Code: 200, Status: "started", WorkerID: i.id, FunctionName: f.name,
			Handshake: "accepted"}))
		f.g.Expect(f.rows()).To(HaveLen(1))
		f.g.Expect(*f.rows()[0].Invocation).To(Equal(id))
		f.g.Expect(f.rows()[0].ID).To(Equal(uuid.MustParse(i.id)))
		i.beats(f.rows()[0].ID)
		f.eventually(func() uuid.UUID { return i.state().RoundWorkerID }).Should(Equal(f.rows()[0].ID))
	}},
	{"of two runtimes that get one id one registers, and the other stays usable", func(f *function) {
		one, two := f.registered().boot(), f.boot()
		id := f.reserve()
		one.set(map[string]any{"hold": true})
		two.set(map[string]any{"hold": true})
		answers := []<-chan reply{one.posting(with(id)), two.posting(with(id))}
		f.eventually(func() int { return one.state().Compilations + two.state().Compilations }).Should(Equal(2))
		one.set(map[string]any{"hold": false})
		two.set(map[string]any{"hold": false})
		a, b := f.answerOf(answers[0]), f.answerOf(answers[1])
		f.g.Expect([]string{a.word(), b.word()}).To(ConsistOf("200 started", "200 running"))
		f.g.Expect([]string{a.WorkerID, b.WorkerID}).To(HaveEach(f.rows()[0].ID.String()))
		f.g.Expect(f.rows()).To(HaveLen(1))

		loser := two
		if a.Status == "running" {
			loser = one
		}
		f.g.Expect(loser.crash()).To(BeEmpty())
		f.g.Expect(loser.state().Rounds).To(BeZero(), "its loop never began")
		f.exec(`UPDATE pgflow.workers SET stopped_at = clock_timestamp() WHERE function_name = $1`, f.name)
		f.g.Expect(loser.post(with(f.dueAgain().reserve())).word()).To(Equal("200 started"))
		loser.beats(f.live()[0].ID)
	}},
	{"a losing runtime's end does not touch the winner, even where both go by one execution id", func(f *function) {
		f.env["SB_EXECUTION_ID"] = uuid.NewString()
		one, two := f.registered().boot(), f.boot()
		id := f.reserve()
		two.set(map[string]any{"hold": true})
		lost := two.posting(with(id))
		f.eventually(func() int { return two.state().Compilations }).Should(Equal(1))
		f.g.Expect(one.post(with(id)).word()).To(Equal("200 started"))
		two.set(map[string]any{"hold": false})
		f.g.Expect(f.answerOf(lost).word()).To(Equal("200 running"))
		two.set(map[string]any{"unload": true})
		one.beats(f.rows()[0].ID)
		f.g.Expect(f.live()).To(HaveLen(1))
		one.set(map[string]any{"unload": true})
		f.eventually(f.live).Should(BeEmpty())
	}},
	{"a runtime whose execution id is another's row registers under a fresh one", func(f *function) {
		i := f.registered().boot()
		f.exec(`INSERT INTO pgflow.workers (worker_id, queue_name, function_name) VALUES ($1, 'q', 'another')`, i.id)
		r := i.post(with(f.reserve()))
		f.g.Expect(r.word()).To(Equal("200 started"))
		f.g.Expect(r.WorkerID).NotTo(Equal(i.id))
		i.beats(uuid.MustParse(r.WorkerID))
		f.eventually(func() uuid.UUID { return i.state().RoundWorkerID }).Should(Equal(f.rows()[0].ID))
	}},
	{"concurrent requests in one runtime share one start", func(f *function) {
		i := f.registered().boot()
		i.set(map[string]any{"hold": true})
		id := f.reserve()
		var answers []<-chan reply
		for range 5 {
			answers = append(answers, i.posting(with(id)))
		}
		f.eventually(func() int { return i.state().Compilations }).Should(Equal(1))
		i.set(map[string]any{"hold": false})
		var words []string
		for _, a := range answers {
			words = append(words, f.answerOf(a).word())
		}
		f.g.Expect(words).To(ConsistOf("200 started", "200 running", "200 running", "200 running", "200 running"))
		f.g.Expect(f.rows()).To(HaveLen(1))
		f.g.Expect(i.state().Compilations).To(Equal(1))
	}},
	{"a failed start is dismissed with its reason, and the runtime serves a later id", func(f *function) {
		i := f.registered().boot()
		missing := pgx.Identifier{uuid.NewString()}.Sanitize()
		i.set(map[string]any{"reads": missing})
		r := i.post(with(f.reserve()))
		f.g.Expect(r.word()).To(Equal("500 Internal Server Error"))
		f.g.Expect(f.outcome()).To(Equal([]string{"dismissed", r.Message}))
		f.g.Expect(r.Message).To(ContainSubstring("does not exist"))
		f.exec(`CREATE TABLE ` + missing + ` ()`)
		f.g.Expect(i.post(with(f.dueAgain().reserve())).word()).To(Equal("200 started"))
		i.beats(f.rows()[0].ID)
	}},
	{"a start that the library itself gives up is dismissed, and a later id is served", func(f *function) {
		i := f.registered().boot()
		i.set(map[string]any{"failVerdicts": 1})
		r := i.post(with(f.reserve()))
		f.g.Expect(r.word()).To(Equal("500 Internal Server Error"))
		f.g.Expect(r.Message).To(HaveSuffix("the flow's shape differs"))
		f.g.Expect(f.outcome()).To(Equal([]string{"dismissed", r.Message}))
		if f.env["GENERATION"] == "0.14" {
			// It starts once per process. The isolate ends, as it would have without the module, only later.
			i.mayCrash = true
			f.eventually(i.crash).Should(ContainSubstring("the flow's shape differs"))
			i = f.boot()
		}
		f.g.Expect(i.post(with(f.dueAgain().reserve())).word()).To(Equal("200 started"))
		i.beats(f.rows()[0].ID)
	}},
	{"a runtime whose worker was deprecated serves a later id with one loop", func(f *function) {
		i := f.registered().boot()
		i.post(with(f.reserve()))
		i.beats(f.rows()[0].ID)
		f.exec(`UPDATE pgflow.workers SET deprecated_at = clock_timestamp() WHERE function_name = $1`, f.name)
		f.stillRounds(i)
		id := f.dueAgain().reserve()
		r := i.post(with(id))
		f.g.Expect(r.word()).To(Equal("200 started"))
		f.g.Expect(r.WorkerID).NotTo(Equal(i.id))
		f.g.Expect(f.live()).To(HaveLen(1))
		f.g.Expect(*f.live()[0].Invocation).To(Equal(id))
		i.beats(uuid.MustParse(r.WorkerID))
		f.eventually(func() string { return i.state().RoundWorkerID.String() }).Should(Equal(r.WorkerID))
		f.g.Expect(i.state().Loops).To(BeNumerically("<=", 1))
		i.set(map[string]any{"unload": true})
		f.eventually(f.live).Should(BeEmpty())
	}},
	{"a runtime whose worker was stopped by others gives its loop a new row", func(f *function) {
		i := f.registered().boot()
		i.post(with(f.reserve()))
		f.exec(`SELECT pgflow.mark_worker_stopped(worker_id) FROM pgflow.workers WHERE function_name = $1`, f.name)
		r := i.post(with(f.dueAgain().reserve()))
		f.g.Expect(r.word()).To(Equal("200 started"))
		f.g.Expect(f.live()).To(HaveLen(1))
		i.beats(uuid.MustParse(r.WorkerID))
		f.g.Expect(i.state().Compilations).To(Equal(1), "the library was not started twice")
	}},
	{"a heartbeat that finds its row gone stops the loop, and the runtime serves a later id", func(f *function) {
		i := f.registered().boot()
		i.post(with(f.reserve()))
		i.beats(f.rows()[0].ID)
		f.exec(`DELETE FROM pgflow.workers WHERE function_name = $1`, f.name)
		f.stillRounds(i)
		r := i.post(with(f.dueAgain().reserve()))
		f.g.Expect(r.word()).To(Equal("200 started"))
		i.beats(uuid.MustParse(r.WorkerID))
	}},
	{"an id that expires during a slow boot is rejected, and the boot ends under a later one", func(f *function) {
		i := f.registered().boot()
		i.set(map[string]any{"hold": true})
		answered := i.posting(with(f.reserve()))
		f.eventually(func() int { return i.state().Compilations }).Should(Equal(1))
		f.expire()
		i.set(map[string]any{"hold": false})
		f.g.Expect(f.answerOf(answered).word()).To(Equal("409 rejected expired"))
		f.g.Expect(f.rows()).To(BeEmpty())
		f.g.Expect(i.post(with(f.dueAgain().reserve())).word()).To(Equal("200 started"))
		i.beats(f.rows()[0].ID)
	}},
	{"a boot slower than its id's life does not keep the sender waiting", func(f *function) {
		i := f.registered().boot()
		f.exec(`UPDATE pgflow.worker_functions SET pending_timeout = '1 s' WHERE function_name = $1`, f.name)
		i.set(map[string]any{"hold": true})
		f.g.Expect(i.post(with(f.reserve())).word()).To(Equal("409 rejected expired"))
		f.exec(`UPDATE pgflow.worker_functions SET pending_timeout = '60 s' WHERE function_name = $1`, f.name)
		id := f.dueAgain().reserve()
		answered := i.posting(with(id))
		i.set(map[string]any{"hold": false})
		f.g.Expect(f.answerOf(answered).word()).To(Equal("200 started"))
		f.g.Expect(*f.rows()[0].Invocation).To(Equal(id))
	}},
	{"with a healthy worker elsewhere nothing is started", func(f *function) {
		i := f.registered().boot()
		id := f.reserve()
		f.exec(`ALTER TABLE pgflow.workers DISABLE TRIGGER handshake_consume`)
		worker := uuid.NewString()
		f.exec(`INSERT INTO pgflow.workers (worker_id, queue_name, function_name) VALUES ($1, 'q', $2)`, worker, f.name)
		f.exec(`ALTER TABLE pgflow.workers ENABLE TRIGGER handshake_consume`)
		r := i.post(with(id))
		f.g.Expect([]string{r.word(), r.WorkerID}).To(Equal([]string{"200 running", worker}))
		f.g.Expect(i.state().Compilations).To(BeZero())
		f.g.Expect(f.outcome()[0]).To(Equal("acknowledged"))
	}},
	{"a loop too busy to beat is not doubled, by an id or without", func(f *function) {
		i := f.registered().boot()
		i.post(with(f.reserve()))
		i.set(map[string]any{"busy": true})
		f.stillBeats(i)
		aged := `UPDATE pgflow.workers SET last_heartbeat_at = clock_timestamp() - interval '10 minutes' WHERE function_name = $1`
		f.exec(aged, f.name)
		r := i.post(with(f.dueAgain().reserve()))
		f.g.Expect([]string{r.word(), r.WorkerID}).To(Equal([]string{"200 running", i.id}))
		f.exec(aged, f.name)
		f.g.Expect(i.post(nil).word()).To(Equal("200 running"))
		f.g.Expect(f.rows()).To(HaveLen(1))
	}},
	{"a loop that an error has ended is not kept alive by requests", func(f *function) {
		i := f.registered().boot()
		i.post(with(f.reserve()))
		i.beats(f.rows()[0].ID)
		i.set(map[string]any{"failRound": true})
		if f.env["GENERATION"] != "0.14" { // a failed task does not end its loop
			i.beats(f.rows()[0].ID)
			f.g.Expect(i.post(nil).word()).To(Equal("200 running"))
			return
		}
		f.stillBeats(i)
		aged := `UPDATE pgflow.workers SET last_heartbeat_at = clock_timestamp() - interval '10 minutes' WHERE function_name = $1`
		f.exec(aged, f.name)
		r := i.post(with(f.dueAgain().reserve()))
		f.g.Expect([]string{r.word(), r.Message}).To(Equal([]string{"500 Internal Server Error", "the round failed"}))
		f.g.Expect(f.outcome()).To(Equal([]string{"dismissed", "the round failed"}))
		f.g.Expect(f.boot().post(with(f.dueAgain().reserve())).word()).To(Equal("200 started"))
	}},
	{"a header that is no UUID is rejected and never falls through to the door without one", func(f *function) {
		i := f.registered().boot()
		for _, text := range []string{"", "x", "{" + uuid.NewString() + "}", "urn:uuid:" + uuid.NewString(),
			uuid.Nil.String(), uuid.NewString()} {
			f.g.Expect(i.post(http.Header{"X-Pgflow-Invocation-Id": {text}}).word()).To(Equal("409 rejected unknown"), text)
		}
		f.g.Expect(f.rows()).To(BeEmpty())
		f.g.Expect(i.state().Compilations).To(BeZero())
	}},
	{"without an id the runtime reserves for itself, registering the function first", func(f *function) {
		i := f.boot()
		f.g.Expect(i.post(nil).word()).To(Equal("200 started"))
		f.g.Expect(i.post(nil).word()).To(Equal("200 running"))
		f.g.Expect(f.boot().post(nil).word()).To(Equal("200 running"))
		f.g.Expect(f.rows()).To(HaveLen(1))
		f.g.Expect(f.outcome()[0]).To(Equal("accepted"))
	}},
	{"without an id it says what keeps it from reserving", func(f *function) {
		i := f.registered().boot()
		f.reserve()
		f.g.Expect(i.post(nil).word()).To(Equal("409 rejected pending"))
		f.exec(`UPDATE pgflow.worker_functions SET invocation_id = NULL, invocation_expires_at = NULL
			WHERE function_name = $1`, f.name)
		f.g.Expect(i.post(nil).word()).To(Equal("409 rejected throttled"))
		f.exec(`UPDATE pgflow.worker_functions SET enabled = false WHERE function_name = $1`, f.name)
		f.g.Expect(i.post(nil).word()).To(Equal("409 rejected disabled"))
		f.exec(`UPDATE pgflow.worker_functions SET start_mode = 'process' WHERE function_name = $1`, f.name)
		f.g.Expect(i.post(nil).word()).To(Equal("409 rejected process"))
		f.g.Expect(f.rows()).To(BeEmpty())
	}},
	{"a wrong key is refused before anything else, and changes nothing", func(f *function) {
		i := f.registered().boot()
		id := f.reserve()
		for _, wrong := range []string{"", key, "Bearer wrong", "Bearer " + key + "x", "bearer " + key} {
			header := with(id)
			header.Set("Authorization", wrong)
			f.g.Expect(i.post(header).word()).To(Equal("401 Unauthorized"), wrong)
		}
		malformed := http.Header{"X-Pgflow-Invocation-Id": {"x"}, "Authorization": {"Bearer wrong"}}
		f.g.Expect(i.post(malformed).word()).To(Equal("401 Unauthorized"))
		f.g.Expect(i.post(with(id)).word()).To(Equal("200 started"))
	}},
	{"without a key configured it answers 500", func(f *function) {
		f.env["PGFLOW_AUTH_SECRET"] = ""
		f.g.Expect(f.registered().boot().post(nil).word()).To(Equal("500 Internal Server Error"))
	}},
	{"the exception for local mode can be switched off", func(f *function) {
		f.env["SUPABASE_URL"] = "http://kong:8000"
		unauthorized := http.Header{"Authorization": {""}}
		f.g.Expect(f.boot().post(unauthorized).word()).To(Equal("200 started"))
		f.env["PGFLOW_LOCAL_MODE"] = "off"
		f.g.Expect(f.boot().post(unauthorized).word()).To(Equal("401 Unauthorized"))
	}},
	{"beforeunload during a start dismisses it", func(f *function) {
		i := f.registered().boot()
		i.set(map[string]any{"hold": true})
		answered := i.posting(with(f.reserve()))
		f.eventually(func() int { return i.state().Compilations }).Should(Equal(1))
		i.set(map[string]any{"unload": true})
		f.g.Expect(f.answerOf(answered).Code).To(Equal(500))
		f.g.Expect(f.outcome()).To(Equal([]string{"dismissed", "unloaded"}))
		i.set(map[string]any{"hold": false})
		f.g.Consistently(f.rows, "200ms").Should(BeEmpty())
	}},
	{"a runtime that was killed is followed by another", func(f *function) {
		i := f.registered().boot()
		i.post(with(f.reserve()))
		i.kill()
		f.exec(`UPDATE pgflow.workers SET last_heartbeat_at = clock_timestamp() - interval '10 minutes' WHERE function_name = $1`,
			f.name)
		f.g.Expect(f.boot().post(with(f.dueAgain().reserve())).word()).To(Equal("200 started"))
	}},
	{"a transaction pooler is enough", func(f *function) {
		f.world = f.pooled()
		f.servesWith("4")
	}},
	{"a registration whose answer is lost is asked for again, and admits one worker", func(f *function) {
		w := f.pooled()
		f.world = w
		i := f.registered().boot()
		w.pooler.loseAnswerTo("insert into pgflow.workers")
		f.g.Expect(i.post(with(f.reserve())).word()).To(Equal("200 started"))
		f.g.Expect(w.pooler.lost.Load()).To(BeEquivalentTo(1))
		f.g.Expect(f.rows()).To(HaveLen(1))
		i.beats(f.rows()[0].ID)
	}},
	{"one connection is enough", func(f *function) { f.servesWith("1") }},
	{"many connections are no hindrance", func(f *function) { f.servesWith("8") }},
}

// servesWith starts, deprecates and starts again with so many connections, five requests at a time.
func (f *function) servesWith(connections string) {
	f.t.Helper()
	f.env["MAX_CONNECTIONS"] = connections
	i := f.registered().bootProgram(ownConnections)
	for range 2 {
		id := f.dueAgain().reserve()
		var answers []<-chan reply
		for range 5 {
			answers = append(answers, i.posting(with(id)))
		}
		var words []string
		for _, a := range answers {
			words = append(words, f.answerOf(a).word())
		}
		f.g.Expect(words).To(ConsistOf("200 started", "200 running", "200 running", "200 running", "200 running"))
		f.g.Expect(f.live()).To(HaveLen(1))
		i.beats(f.live()[0].ID)
		f.exec(`UPDATE pgflow.workers SET deprecated_at = clock_timestamp() WHERE function_name = $1`, f.name)
		f.stillRounds(i)
	}
}

// stillRounds waits until the isolate's loop makes no more rounds.
func (f *function) stillRounds(i *isolate) {
	f.t.Helper()
	f.eventually(func() bool {
		before := i.state().Rounds
		f.exec(`SELECT pg_sleep(0.1)`)
		return i.state().Rounds == before
	}).Should(BeTrue())
}

// stillBeats waits until the isolate's loop beats no more.
func (f *function) stillBeats(i *isolate) {
	f.t.Helper()
	f.eventually(func() bool {
		before := f.rows()[0].Beat
		f.exec(`SELECT pg_sleep(0.15)`)
		return f.rows()[0].Beat.Equal(before)
	}).Should(BeTrue())
}
