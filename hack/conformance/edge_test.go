package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"
)

const edge = "../../edge"

// TestEdgeModule drives the module for edge functions with each generation of the library, in two isolates.
func TestEdgeModule(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(edge + "/handshake.ts"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("there is no edge module in this tree")
	}
	deno := findDeno(t)
	for _, generation := range []string{"0.14", "0.15", "0.17"} {
		t.Run(generation, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			database, _ := migrated(t)
			host := isolates(t, deno)
			endpoints := []string{isolate(t, host, database, generation), isolate(t, host, database, generation)}
			code, r, stderr := drive(t, database, endpoints)
			g.Expect(code).To(Equal(exitPassed), stderr+r.table())
			g.Expect(r.Passed).To(Equal(len(cases())), "none is skipped")
		})
	}
}

// findDeno returns the Deno that is pinned for tests; a tree with the module but without Deno is an error.
func findDeno(t *testing.T) string {
	t.Helper()
	const script = "../testenv/deno.sh"
	command := exec.CommandContext(t.Context(), script)
	command.Stderr = os.Stderr
	path, err := command.Output()
	if err != nil {
		t.Fatalf("no Deno to run the edge module with; run %s, or set DENO to one: %v", script, err)
	}
	return strings.TrimSpace(string(path))
}

// isolates starts the edge module's host of isolates and returns its URL.
func isolates(t *testing.T, deno string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), deno, "run", "--no-check", "--allow-all", "fixtures/host.ts")
	command.Dir = edge
	command.Env = append(os.Environ(), "DENO_NO_UPDATE_CHECK=1", "DENO_NO_PROMPT=1", "NO_COLOR=1")
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe() // it ends when this is closed, also when this process is killed
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Wait()
	})
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the host of the isolates said no port: %v", err)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// isolate boots an isolate with the example function and returns its functions URL.
func isolate(t *testing.T, host, database, generation string) string {
	t.Helper()
	start, err := json.Marshal(map[string]any{"program": "../examples/greet-user/index.ts", "env": map[string]string{
		"GENERATION": generation, "SB_EXECUTION_ID": uuid.NewString(), "PGFLOW_AUTH_SECRET": key, "SUPABASE_DB_URL": database}})
	if err != nil {
		t.Fatal(err)
	}
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost, host, bytes.NewReader(start))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	var booted struct{ Port int }
	if err = errors.Join(err, json.Unmarshal(text, &booted)); err != nil {
		t.Fatalf("booting an isolate: %v: %s", err, text)
	}
	return fmt.Sprint("http://127.0.0.1:", booted.Port)
}
