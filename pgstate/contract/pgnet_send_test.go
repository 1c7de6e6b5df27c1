package contract_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
)

// One call reserves and enqueues exactly the contract's request, and never again for that reservation.
func TestEnsureWorkersReservesAndEnqueues(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	g := NewWithT(t)
	f := d.function(t, "")
	rows := ensure(t, d.pool)
	g.Expect(rows).To(HaveLen(1))
	state := f.state()
	g.Expect(state.phase).To(Equal("pending"))
	requests := d.requests(t)
	g.Expect(requests).To(Equal([]request{{
		ID: rows[0].Request, Method: "POST", URL: projectURL + "/" + f.name,
		Headers: headersWith(f.row().id, "service key"), Body: `{}`, Params: `{}`,
	}}))
	g.Expect(rows[0]).To(Equal(started{f.name, true, requests[0].ID}))

	for range 3 {
		g.Expect(ensure(t, d.pool)).To(BeEmpty(), "pending: never sent again")
	}
	g.Expect(f.reserve().decision).To(Equal("pending"), "an operator beside it has nothing to send")
	g.Expect(d.text(t, `select takes_part::text from pgflow.worker_function_states`)).To(Equal("false"), "nor to send again")
	g.Expect(f.accept(f.row().id, newID()).verdict).To(Equal("accepted"))
	g.Expect(ensure(t, d.pool)).To(BeEmpty(), "ready")
	g.Expect(d.requests(t)).To(HaveLen(1))
}

// As cron calls it, in the target list.
func TestEnsureWorkersAsCronCallsIt(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	f := d.function(t, "")
	d.exec(t, `select pgflow.ensure_workers()`)
	NewWithT(t).Expect(d.sent(t, projectURL+"/"+f.name)).To(Equal([]string{f.row().id}))
}

// Reservation and request are one transaction: pg_net sends nothing before the commit, and nothing after a rollback.
func TestEnsureWorkersSendsWithItsTransaction(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	g := NewWithT(t)
	f := d.function(t, "")
	tx := d.begin(t)
	g.Expect(ensured(t, tx)).To(Equal([]string{f.name}))
	g.Expect(d.requests(t)).To(BeEmpty(), "before the commit")
	g.Expect(f.row().id).To(BeEmpty())
	must(t, tx.Rollback(t.Context()))
	g.Expect(d.requests(t)).To(BeEmpty(), "rolled back")
	g.Expect(f.row().id).To(BeEmpty())
	tx = d.begin(t)
	g.Expect(ensured(t, tx)).To(Equal([]string{f.name}))
	must(t, tx.Commit(t.Context()))
	g.Expect(d.sent(t, projectURL+"/"+f.name)).To(Equal([]string{f.row().id}))

	// Where pg_net refuses a request, nothing is reserved.
	d.exec(t, `alter table net.http_request_queue add check (url not like '%refused')`)
	refused, other := d.named(t, "refused", ""), d.function(t, "")
	_, err := tryEnsure(t.Context(), d.pool)
	g.Expect(code(err)).To(Equal("23514"))
	g.Expect([]string{refused.row().id, other.row().id}).To(Equal([]string{"", ""}))
}

// Where a request goes, and with which key. Names of the vault's secrets as today, and one of ours for the URL.
func TestEnsureWorkersCredentials(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	secrets := []string{"supabase_project_id", "supabase_service_role_key", "pgflow_auth_secret", "pgflow_functions_url"}
	for name, test := range map[string]struct {
		values   [4]string // of these
		local    bool
		url, key string // url "": PF103
		message  string
	}{
		"project and service key":       {values: [4]string{"p", "service"}, url: "https://p.supabase.co/functions/v1", key: "service"},
		"auth secret first":             {values: [4]string{"p", "service", "auth"}, url: "https://p.supabase.co/functions/v1", key: "auth"},
		"auth secret alone":             {values: [4]string{"p", "", "auth"}, url: "https://p.supabase.co/functions/v1", key: "auth"},
		"an empty auth secret is none":  {values: [4]string{"p", "service", " \n"}, url: "https://p.supabase.co/functions/v1", key: "service"},
		"functions URL":                 {values: [4]string{"", "service", "", "http://kong.supabase:8000/functions/v1"}, url: "http://kong.supabase:8000/functions/v1", key: "service"},
		"functions URL first":           {values: [4]string{"p", "service", "", "http://functions:9000//\n"}, url: "http://functions:9000", key: "service"},
		"local":                         {local: true, url: "http://kong:8000/functions/v1"},
		"local sends no key":            {values: [4]string{"p", "service", "auth"}, local: true, url: "http://kong:8000/functions/v1"},
		"a functions URL ends local":    {values: [4]string{"", "service", "", "http://functions:9000"}, local: true, url: "http://functions:9000", key: "service"},
		"a functions URL needs a key":   {values: [4]string{"", "", "", "http://functions:9000"}, local: true, message: "pgflow_auth_secret or supabase_service_role_key is missing"},
		"nothing":                       {message: "pgflow_functions_url or supabase_project_id is missing"},
		"key alone":                     {values: [4]string{"", "service"}, message: "pgflow_functions_url or supabase_project_id is missing"},
		"project alone":                 {values: [4]string{"p"}, message: "pgflow_auth_secret or supabase_service_role_key is missing"},
		"no scheme":                     {values: [4]string{"", "service", "", "functions:9000"}, message: "makes no http or https URL"},
		"a user":                        {values: [4]string{"", "service", "", "http://u:secret@functions:9000"}, message: "makes no http or https URL"},
		"a query":                       {values: [4]string{"", "service", "", "http://functions:9000/?q"}, message: "makes no http or https URL"},
		"a project that is no project":  {values: [4]string{"evil.example/x?", "service"}, message: "makes no http or https URL"},
		"a project with another's host": {values: [4]string{"p@evil", "service"}, message: "makes no http or https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for i, secret := range secrets {
				d.secret(t, secret, test.values[i])
			}
			d.exec(t, `delete from pgflow.worker_functions; delete from net.http_request_queue`)
			f := d.function(t, "")
			c := d.connect(t)
			if test.local {
				_, err := c.Exec(t.Context(), `select set_config('app.settings.jwt_secret', 'the well-known one', false)`)
				must(t, err)
			}
			rows, err := tryEnsure(t.Context(), c)
			if test.url == "" {
				g.Expect(code(err)).To(Equal("PF103"))
				g.Expect(err).To(MatchError(And(ContainSubstring(test.message), Not(ContainSubstring("secret@")))))
				g.Expect([]any{f.row().id, f.state().phase, len(d.requests(t))}).To(Equal([]any{"", "retryable", 0}))
				f.set(`enabled = false`)
				g.Expect(ensured(t, c)).To(BeEmpty(), "no complaint where nothing is to be started")
				return
			}
			must(t, err)
			g.Expect(rows).To(HaveLen(1))
			r := d.requests(t)[0]
			g.Expect([]string{r.URL, r.Headers}).To(Equal([]string{test.url + "/" + f.name, headersWith(f.row().id, test.key)}))
		})
	}
}

// A name is one path segment, whatever is in it; one that cannot be is neither sent nor reserved.
func TestEnsureWorkersEscapesNames(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	g := NewWithT(t)
	want := map[string]string{
		"plain-name_1.2~": "plain-name_1.2~",
		"a/b":             "a%2Fb",
		`a\b`:             "a%5Cb",
		"a b?c#d%e&f+g":   "a%20b%3Fc%23d%25e%26f%2Bg",
		"größe 🚀":         "gr%C3%B6%C3%9Fe%20%F0%9F%9A%80",
		"...":             "...",
		"a..b":            "a..b",
		`it's "x"`:        "it%27s%20%22x%22",
	}
	for name := range want {
		d.named(t, name, "")
	}
	never := []string{"", ".", "..", "a/../b", `..\b`, "a/.", "./a", "a\tb", "a\nb", "\x7f", "a\u0085b", "../..", "//../x"}
	for _, name := range never {
		d.named(t, name, "")
	}
	once := d.unregistered(t, "a/../b") // was reserved by somebody, and expired: closed, not started
	once.reserved()
	once.expire()
	got := map[string]string{}
	for _, s := range ensure(t, d.pool) {
		got[s.Function] = d.text(t, `select url from net.http_request_queue where id = $1`, s.Request)
	}
	for name, segment := range want {
		g.Expect(got).To(HaveKeyWithValue(name, projectURL+"/"+segment))
	}
	g.Expect(got).To(HaveLen(len(want)))
	for _, name := range never {
		g.Expect(d.unregistered(t, name).row().id).To(BeEmpty(), "%q", name)
	}
	g.Expect(once.row().outcome).To(Equal("expired"))
}

// Reading and deciding need READ COMMITTED, as for every operation.
func TestEnsureWorkersOutsideReadCommitted(t *testing.T) {
	t.Parallel()
	d := sqlPath(t)
	f := d.function(t, "")
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		_, err := tryEnsure(t.Context(), d.begin(t, pgx.TxOptions{IsoLevel: level}))
		NewWithT(t).Expect(code(err)).To(Equal("25001"))
	}
	NewWithT(t).Expect(f.row().id).To(BeEmpty())
}
