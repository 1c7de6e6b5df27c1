package edge_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// deno is the path of Deno's binary, found before any test runs.
var deno string

func TestMain(m *testing.M) {
	var err error
	if deno, err = findDeno(); err != nil {
		fmt.Fprintln(os.Stderr, "edge:", err)
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}

// findDeno returns DENO, or what the script provides: it installs Deno at first.
func findDeno() (string, error) {
	const script = "../hack/testenv/deno.sh"
	command := exec.CommandContext(context.Background(), script) // the first time it installs
	command.Stderr = os.Stderr
	path, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("no Deno to test with; run %s, or set DENO to one: %w", script, err)
	}
	return strings.TrimSpace(string(path)), nil
}

// denoCommand is Deno in this directory, with env added to the environment. It asks nobody anything.
func denoCommand(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), deno, args...)
	command.Env = append(os.Environ(), "DENO_NO_UPDATE_CHECK=1", "DENO_NO_PROMPT=1", "NO_COLOR=1")
	command.Env = append(command.Env, env...)
	return command
}

func migrated(t *testing.T) string {
	t.Helper()
	url := pgtest.NewDatabase(t)
	if _, err := pgstate.Migrate(t.Context(), url, pgstate.MigrateOptions{CreateBaseTables: true}); err != nil {
		t.Fatal(err)
	}
	return url
}

// TestDeno runs Deno's own tools over the module: its checks, and the tests that are written in TypeScript.
func TestDeno(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{"fmt --check", "lint", "check .", "test --no-check --allow-all"} {
		t.Run(arguments, func(t *testing.T) {
			t.Parallel()
			env := []string{"DATABASE_URL=" + migrated(t)}
			output, err := denoCommand(t, env, strings.Fields(arguments)...).CombinedOutput()
			t.Logf("%s", output)
			if err != nil {
				t.Fatalf("deno %s: %v", arguments, err)
			}
		})
	}
}
