package pgstate_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

const password = "s3cret/pass@word"

func TestParseURL(t *testing.T) {
	t.Parallel()
	type parts struct {
		host                     string
		port                     uint16
		user, password, database string
	}
	for raw, want := range map[string]parts{
		"postgres://u:p@db/app":                                                {"db", 5432, "u", "p", "app"},
		"postgresql://u:p@db:6543/app":                                         {"db", 6543, "u", "p", "app"},
		"postgres://u:p@db:/app":                                               {"db", 5432, "u", "p", "app"},
		"\n postgres://u:p@db/app \n":                                          {"db", 5432, "u", "p", "app"},
		"postgres://postgres.tenant:p@pooler:6543/db":                          {"pooler", 6543, "postgres.tenant", "p", "db"},
		"postgres://u%40x:s3cret%2Fpass%40word@DB/my%2Fdb":                     {"db", 5432, "u@x", password, "my/db"},
		"postgres://u:p%23%3F%25%3A+%20@db/app":                                {"db", 5432, "u", "p#?%:+ ", "app"},
		"postgres://u:p@ss@db/app":                                             {"db", 5432, "u", "p@ss", "app"},
		"postgres://u:p:q@db/app":                                              {"db", 5432, "u", "p:q", "app"},
		"postgres://u:p@[::1]/app":                                             {"::1", 5432, "u", "p", "app"},
		"postgres://u:p@[2001:DB8:0:0::1]:7/app":                               {"2001:db8::1", 7, "u", "p", "app"},
		"postgres://u:p@[fe80::1%25eth0]:7/app":                                {"fe80::1%eth0", 7, "u", "p", "app"},
		"postgres://u:p@10.0.0.1:65535/app":                                    {"10.0.0.1", 65535, "u", "p", "app"},
		"postgres://u:p@db/app?sslmode=disable":                                {"db", 5432, "u", "p", "app"},
		"postgres://u:%C3%BC@db/app?connect_timeout=60&application_name=x%20y": {"db", 5432, "u", "ü", "app"},
	} {
		c, err := pgstate.ParseURL(raw)
		if err != nil {
			t.Errorf("%q: %v", raw, err)
			continue
		}
		config, err := c.PoolConfig()
		must(t, err)
		conn := config.ConnConfig
		if got := (parts{conn.Host, conn.Port, conn.User, conn.Password, conn.Database}); got != want {
			t.Errorf("%q: %+v, want %+v", raw, got, want)
		}
	}
}

// refused are connection strings, with what the error has to say about each.
var refused = map[string]string{
	"":         "must begin with postgres://",
	"hunter22": "must begin with postgres://",
	"host=db user=u password=hunter22 dbname=app":                       "must begin with postgres://",
	"mysql://u:hunter22@db/app":                                         "must begin with postgres://",
	"postgres:u:hunter22@db":                                            "must begin with postgres://",
	"postgres://u:hunter22@db":                                          "must name a database",
	"postgres://u:hunter22@db/":                                         "must name a database",
	"postgres://u:hunter22@db/app/hunter22":                             "the database's name alone",
	"postgres://u:hunter22@db/app/":                                     "the database's name alone",
	"postgres://u:hunter22@/app":                                        "must name a host",
	"postgres://u:hunter22@:5432/app":                                   "must name a host",
	"postgres://u:hunter22@/app?host=db":                                "must name a host",
	"postgres://u:hunter22@%2Fvar%2Frun%2Fpostgresql/app":               "percent-encoded",
	"postgres:///app?host=/var/run&user=u&password=hunter22":            "must name a user",
	"postgres://db/app":                                                 "must name a user",
	"postgres://u@db/app":                                               "must contain a password",
	"postgres://u:@db/app":                                              "must contain a password",
	"postgres://:hunter22@db/app":                                       "must name a user",
	"postgres://u:hunter22@a,b/app":                                     "exactly one host",
	"postgres://u:hunter22@a:1,b:2/app":                                 "exactly one host",
	"postgres://u:hunter22@db:0/app":                                    "port must be a number",
	"postgres://u:hunter22@db:65536/app":                                "port must be a number",
	"postgres://u:hunter22@db:x/app":                                    "percent-encoded",
	"postgres://u:hun/ter22@db/app":                                     "percent-encoded",
	"postgres://u:hun#ter22@db/app":                                     "",
	"postgres://u:123#ter22@db/app":                                     "%23",
	"postgres://u:hun?ter22@db/app":                                     "",
	"postgres://u:hun%ter22@db/app":                                     "percent-encoded",
	"postgres://u:hunter22@db/app%zz":                                   "percent-encoded",
	"postgres://u:hunter22@db/app#":                                     "%23",
	"postgres://u:hunter22@db/app#x":                                    "%23",
	"postgres://u:hunter%0022@db/app":                                   "NUL",
	"postgres://u:hunter22@db/a%00pp":                                   "NUL",
	"postgres://u%00v:hunter22@db/app":                                  "NUL",
	"postgres://u:hunter22@d b/app":                                     "percent-encoded",
	"postgres://u:hunter22@db\x00/app":                                  "percent-encoded",
	"postgres://u:hunter22@db/app?x=%zz":                                "parameters after ?",
	"postgres://u:hunter22@db/app?a;b":                                  "parameters after ?",
	"postgres://u:hunter22@db/app?sslmode":                              "sslmode must be",
	"postgres://u:hunter22@db/app?sslmode=":                             "sslmode must be",
	"postgres://u:hunter22@db/app?sslmode=verify-ca":                    "sslmode must be",
	"postgres://u:hunter22@db/app?sslmode=disable&sslmode=require":      "given twice",
	"postgres://u:hunter22@db/app?connect_timeout=0":                    "from 1 to 60",
	"postgres://u:hunter22@db/app?connect_timeout=61":                   "from 1 to 60",
	"postgres://u:hunter22@db/app?connect_timeout=-1":                   "from 1 to 60",
	"postgres://u:hunter22@db/app?connect_timeout=18446744073709551617": "from 1 to 60",
	"postgres://u:hunter22@db/app?application_name=":                    "application_name is empty",
	"postgres://u:hunter22@db/app?application_name=a%00b":               "NUL",
	"postgres://u:hunter22@db/" + strings.Repeat("x", 2000):             "too long",
	"postgres://u:hunter22@db/" + strings.Repeat("x", 9000):             "too long",
}

func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	cases := maps.Clone(refused)
	for _, key := range []string{
		"host", "hostaddr", "port", "user", "password", "dbname", "database", "passfile", "service", "servicefile", "sslcert",
		"sslkey", "sslrootcert", "sslpassword", "sslcrl", "options", "target_session_attrs", "krbsrvname", "search_path",
		"pool_max_conns", "default_query_exec_mode", "SSLMODE", "",
	} {
		cases["postgres://u:hunter22@db/app?"+key+"=hunter22"] = "application_name, connect_timeout and sslmode are"
	}
	for raw, want := range cases {
		c, err := pgstate.ParseURL(raw)
		if !errors.Is(err, pgstate.ErrConnection) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want one with %q", raw, err, want)
			continue
		}
		if strings.Contains(err.Error(), "ter22") || strings.Contains(err.Error(), "u:") {
			t.Errorf("%q: the error repeats it: %v", raw, err)
		}
		if c != (pgstate.Connection{}) {
			t.Errorf("%q: returns a connection with the error", raw)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for raw := range refused {
		f.Add(raw, "hunter22", "db", "app", "sslmode=disable")
	}
	for _, pw := range []string{"hunter22", "s3cret/pass", "a@b:c?d#e%f", "%zz%zz%zz", "[::1]:secret", "12345?secret", "pass word", "ü€𝄞"} {
		f.Add("postgres://u:"+pw+"@db/app", pw, "db", "app", "connect_timeout="+pw)
	}
	// Everything that an error may say.
	var texts string
	for raw := range refused {
		_, err := pgstate.ParseURL(raw)
		texts += err.Error() + "\n"
	}
	f.Fuzz(func(t *testing.T, raw, secret, host, database, keys string) {
		for _, text := range []string{raw, "postgres://u:" + secret + "@" + host + "/" + database + "?" + keys} {
			c, err := pgstate.ParseURL(text)
			if err == nil {
				// What is accepted is complete and can be used.
				if _, err := c.PoolConfig(); err != nil {
					t.Fatalf("%q is accepted, but: %v", text, err)
				}
				if again, err := pgstate.NewConnection("db", 1, "u", "p", "d"); err != nil || again.Key() == c.Key() && again != c {
					t.Fatalf("%q has the key of another", text)
				}
				continue
			}
			if !errors.Is(err, pgstate.ErrConnection) {
				t.Fatalf("%q: %v", text, err)
			}
			if len(secret) >= 6 && strings.Contains(err.Error(), secret) && !strings.Contains(texts, secret) {
				t.Fatalf("%q: the error repeats it: %v", text, err)
			}
		}
	})
}
