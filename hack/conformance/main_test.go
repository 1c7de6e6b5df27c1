package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

func TestMain(m *testing.M) {
	// The cases wait for locks and deadlines most of the time: more of them at once than there are processors.
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	os.Exit(pgtest.Main(m))
}

const (
	key      = "a-service-key"
	function = "greet-user"
)

// migrated returns the URL of a database with the handshake, and connections to it.
func migrated(t *testing.T) (string, *pgxpool.Pool) {
	t.Helper()
	url := pgtest.NewDatabase(t)
	if _, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{CreateBaseTables: true}); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return url, pool
}

// drive runs the command as a person does and returns its exit code, the report and what it said on standard error.
func drive(t *testing.T, database string, endpoints []string, more ...string) (code int, r report, stderr string) {
	t.Helper()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--json", "--key-file", keyFile, "--function", function, "--database-url", database}
	for _, endpoint := range endpoints {
		args = append(args, "--endpoint", endpoint)
	}
	var out, complaints bytes.Buffer
	code = command(t.Context(), append(args, more...), &out, &complaints)
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("the report is no JSON: %v\n%s", err, out.Bytes())
		}
	}
	return code, r, complaints.String()
}

// cases of a report with an outcome.
func (r report) with(o outcome) (names []string) {
	for _, c := range r.Cases {
		if c.Outcome == o {
			names = append(names, c.Case)
		}
	}
	return names
}

// table is the report as a person sees it.
func (r report) table() string {
	var b strings.Builder
	if err := r.write(&b, false); err != nil {
		return fmt.Sprint(err)
	}
	return b.String()
}
