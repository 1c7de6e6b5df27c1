package pgstate_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func TestNewConnection(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ host, user, password, database, want string }{
		{"", "u", "hunter22", "d", "host"},
		{"/var/run", "u", "hunter22", "d", "sockets"},
		{`C:\x`, "u", "hunter22", "d", "sockets"},
		{"@abstract", "u", "hunter22", "d", "sockets"},
		{"a,b", "u", "hunter22", "d", "exactly one"},
		{"a b", "u", "hunter22", "d", "space"},
		{"a\n", "u", "hunter22", "d", "space"},
		{"db", "", "hunter22", "d", "user"},
		{"db", "u", "", "d", "password"},
		{"db", "u", "hunter22", "", "database"},
		{"db", "u", "hunter\x0022", "d", "NUL"},
	} {
		_, err := pgstate.NewConnection(test.host, 0, test.user, test.password, test.database)
		if !errors.Is(err, pgstate.ErrConnection) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%+v: %v", test, err)
		}
	}
	c, err := pgstate.NewConnection("[::1]", 0, "u", "p", "d")
	must(t, err)
	wantEqual(t, "identity", c.Identity(), "[::1]:5432/d")
}

func TestConnectionKeyAndIdentity(t *testing.T) {
	t.Parallel()
	parse := func(raw string) pgstate.Connection {
		c, err := pgstate.ParseURL(raw)
		must(t, err)
		return c
	}
	base := parse("postgres://u:p@db/app")
	for _, same := range []string{"postgresql://u:p@DB:5432/app", "postgres://u:%70@db/app?sslmode=prefer&connect_timeout=5"} {
		if parse(same).Key() != base.Key() || parse(same) != base {
			t.Errorf("%q has another key", same)
		}
	}
	keys := map[string]string{base.Key(): "base"}
	for _, other := range []string{
		"postgres://u:p2@db/app", "postgres://u2:p@db/app", "postgres://u:p@db:1/app", "postgres://u:p@db2/app",
		"postgres://u:p@db/app2", "postgres://u:p@db/app?sslmode=require", "postgres://u:p@db/app?connect_timeout=6",
		"postgres://u:p@db/app?application_name=x",
	} {
		c := parse(other)
		if twin, ok := keys[c.Key()]; ok {
			t.Errorf("%q has the key of %s", other, twin)
		}
		keys[c.Key()] = other
	}
	wantEqual(t, "identity", base.Identity(), "db:5432/app")
	if other := parse("postgres://u2:p2@Db./app?sslmode=require"); other.Identity() != base.Identity() {
		t.Errorf("identity %s, want %s", other.Identity(), base.Identity())
	}
	if strings.Contains(base.Key(), "p@") || len(base.Key()) != 64 {
		t.Errorf("key %s", base.Key())
	}
}

func TestConnectionNeverPrintsItsPassword(t *testing.T) {
	t.Parallel()
	c, err := pgstate.NewConnection("db", 0, "u", "hunter22", "app")
	must(t, err)
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "connection", c, "pointer", &c)
	encoded, err := json.Marshal(map[string]any{"c": c, "p": &c})
	must(t, err)
	type holder struct{ C pgstate.Connection }
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", c), "%+v": fmt.Sprintf("%+v", c), "%#v": fmt.Sprintf("%#v", c), "%s": fmt.Sprintf("%s", c),
		"%q": fmt.Sprintf("%q", c), "%x": fmt.Sprintf("%x", c), "%d": fmt.Sprintf("%d", c), "pointer": fmt.Sprintf("%+v", &c),
		"field": fmt.Sprintf("%+v %#v", holder{c}, holder{c}), "slog": logged.String(), "json": string(encoded), "String": c.String(),
	} {
		if strings.Contains(text, "hunter22") || strings.Contains(text, "68756e746572") {
			t.Errorf("%s: %s", name, text)
		}
		if !strings.Contains(text, "db:5432/app") {
			t.Errorf("%s does not say which: %s", name, text)
		}
	}
}

func TestSSLModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"":            "unverified db, plain", // the default
		"prefer":      "unverified db, plain",
		"disable":     "plain",
		"require":     "unverified db",
		"verify-full": "verified db",
	} {
		raw := "postgres://u:p@db/app"
		if mode != "" {
			raw += "?sslmode=" + mode
		}
		c, err := pgstate.ParseURL(raw)
		must(t, err)
		config, err := c.PoolConfig()
		must(t, err)
		got := encryption(config.ConnConfig.TLSConfig)
		for _, fallback := range config.ConnConfig.Fallbacks {
			if fallback.Host != "db" || fallback.Port != 5432 {
				t.Errorf("falls back to %s:%d", fallback.Host, fallback.Port)
			}
			got += ", " + encryption(fallback.TLSConfig)
		}
		wantEqual(t, "sslmode "+mode, got, want)
	}
}

func encryption(config *tls.Config) string {
	switch {
	case config == nil:
		return "plain"
	case config.InsecureSkipVerify:
		return "unverified " + config.ServerName
	default:
		return "verified " + config.ServerName
	}
}

func TestPoolConfigsAreSeparate(t *testing.T) {
	t.Parallel()
	c, err := pgstate.ParseURL("postgres://u:p@db/app")
	must(t, err)
	first, err := c.PoolConfig()
	must(t, err)
	first.MaxConns = 99
	first.ConnConfig.RuntimeParams["x"] = "y"
	first.ConnConfig.Password = "changed"
	second, err := c.PoolConfig()
	must(t, err)
	if second.MaxConns == 99 || second.ConnConfig.RuntimeParams["x"] != "" || second.ConnConfig.Password != "p" {
		t.Fatal("one configuration changes another")
	}
	if strings.Contains(second.ConnString(), "p@") {
		t.Fatal("the configuration holds the connection string")
	}
	if _, err := (pgstate.Connection{}).PoolConfig(); !errors.Is(err, pgstate.ErrConnection) {
		t.Fatalf("of no connection: %v", err)
	}
}
