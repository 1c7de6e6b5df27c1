package contract_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/gomega"
)

// Null or malformed input never starts anything, and each call returns exactly one row all the same.
func TestNullInputStartsNothing(t *testing.T) {
	t.Parallel()
	d := shared(t)
	f := d.function(t, "")
	id := f.reserved()
	f.unchanged(func() {
		for sql, want := range map[string]string{
			`select decision from pgflow.reserve_invocation(null)`:                                         "unknown",
			`select verdict || ' ' || reason from pgflow.receive_invocation(null, null, null)`:             "rejected unknown",
			`select verdict || ' ' || reason from pgflow.receive_invocation(null, $1::uuid, $2::uuid)`:     "rejected unknown",
			`select verdict || ' ' || reason from pgflow.receive_invocation($3, null, null)`:               "rejected unknown",
			`select verdict || ' ' || reason from pgflow.receive_invocation($3, null, $2::uuid)`:           "rejected unknown",
			`select verdict || ' ' || reason from pgflow.accept_invocation(null, $1::uuid, $2::uuid, 'q')`: "rejected unknown",
			`select verdict || ' ' || reason from pgflow.accept_invocation($3, null, $2::uuid, 'q')`:       "rejected unknown",
			`select dismissed::text from pgflow.dismiss_invocation(null, $1::uuid, 'r')`:                   "false",
			`select dismissed::text from pgflow.dismiss_invocation($3, null, 'r')`:                         "false",
			`select dismissed::text from pgflow.dismiss_invocation(null, null, null)`:                      "false",
			`select cleared::text from pgflow.clear_throttle(null)`:                                        "false",
		} {
			for range 2 {
				got, err := one(t, d.pool, pgx.RowTo[string],
					`with p as (select $1::text, $2::text, $3::text) `+strings.NewReplacer("$1", "$1::text", "$2", "$2::text", "$3", "$3::text").Replace(sql), id, newID(), f.name)
				must(t, err)
				NewWithT(t).Expect(got).To(Equal(want), sql)
			}
		}
	})
}

// A null worker id or queue name in accept raises 22004, and consumes nothing.
func TestAcceptOfNullWorkerOrQueueRaises(t *testing.T) {
	t.Parallel()
	d := shared(t)
	f := d.function(t, "")
	id := f.reserved()
	f.unchanged(func() {
		for _, args := range [][]any{{f.name, id, nil, "q"}, {f.name, id, newID(), nil}, {f.name, id, nil, nil}} {
			for range 2 {
				_, err := d.pool.Exec(t.Context(), `select from pgflow.accept_invocation($1, $2, $3, $4)`, args...)
				NewWithT(t).Expect(code(err)).To(Equal("22004"))
			}
		}
	})
	NewWithT(t).Expect(f.accept(id, newID()).verdict).To(Equal("accepted"))
}

func TestMalformedIDIsRefusedByItsType(t *testing.T) {
	t.Parallel()
	d := shared(t)
	f := d.function(t, "")
	f.reserved()
	f.unchanged(func() {
		for _, id := range []string{"x", "0", strings.Repeat("f", 33), "'; drop table pgflow.workers; --"} {
			_, err := f.tryReceive(id, "")
			NewWithT(t).Expect(code(err)).To(Equal("22P02"), id)
			_, err = f.tryAccept(id, newID())
			NewWithT(t).Expect(code(err)).To(Equal("22P02"), id)
		}
	})
}

// Any text is a name, and means that name alone.
func TestNamesAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	d := shared(t)
	for _, name := range []string{"", " ", "%", "f_", "F_", `a"b'c\d`, "größe", "ключ", "a\nb", "a/../b", strings.Repeat("long", 400)} {
		t.Run(name, func(t *testing.T) {
			f := d.named(t, name, "")
			NewWithT(t).Expect(f.reserve().decision).To(Equal("reserved"))
		})
	}
	for _, name := range []string{"f", "f%", "größ", "GRÖSSE"} {
		NewWithT(t).Expect(d.unregistered(t, name).reserve().decision).To(Equal("unknown"), name)
	}
}

// What the columns accept.
func TestColumnsRefuseNonsense(t *testing.T) {
	t.Parallel()
	d := shared(t)
	f := d.function(t, "")
	NewWithT(t).Expect(d.text(t, `select concat_ws(' ', pending_timeout, heartbeat_timeout, handshake, failed_starts, last_outcome)
		from pgflow.worker_functions where function_name = $1`, f.name)).To(Equal("00:01:00 00:00:30 permissive 0"), "defaults")
	f.unchanged(func() {
		for settings, want := range map[string]string{
			`pending_timeout = interval '999 ms'`:   "23514",
			`pending_timeout = interval '3601 s'`:   "23514",
			`pending_timeout = interval '-1 s'`:     "23514",
			`pending_timeout = null`:                "23502",
			`heartbeat_timeout = interval '999 ms'`: "23514",
			`heartbeat_timeout = interval '3601 s'`: "23514",
			`heartbeat_timeout = null`:              "23502",
			`handshake = 'optional'`:                "23514",
			`handshake = null`:                      "23502",
			`failed_starts = null`:                  "23502",
			`invocation_id = gen_random_uuid()`:     "23514",
			`invocation_expires_at = now()`:         "23514",
			`last_outcome = 'forgotten'`:            "23514",
		} {
			_, err := d.pool.Exec(t.Context(), `update pgflow.worker_functions set `+settings+` where function_name = $1`, f.name)
			NewWithT(t).Expect(code(err)).To(Equal(want), settings)
		}
	})
	for _, settings := range []string{`pending_timeout = interval '1 s'`, `pending_timeout = interval '1 h'`,
		`heartbeat_timeout = interval '1 s'`, `heartbeat_timeout = interval '1 h'`, `handshake = 'required'`} {
		f.set(settings)
	}
	// Unique where not null, whoever writes it.
	_, w := f.admitted()
	other := d.function(t, "").worker()
	_, err := d.pool.Exec(t.Context(), `update pgflow.workers set invocation_id = (select invocation_id from pgflow.workers where worker_id = $1) where worker_id = $2`, w, other)
	NewWithT(t).Expect(code(err)).To(Equal("23505"))
}

// Before the handshake a worker's function name could be any text, and still can. An index row bounds what does not
// compress to about 2,700 bytes, as it does a registration's name.
func TestWorkersOfUnregisteredFunctionsHaveAnyName(t *testing.T) {
	t.Parallel()
	d := migrated(t)
	for _, name := range []string{"", strings.Repeat("x", 100000), d.text(t, `select string_agg(md5(n::text), '') from generate_series(1, 62) n`)} {
		must(t, d.unregistered(t, name).insert(newID(), ""))
	}
}
