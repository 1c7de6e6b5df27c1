package edgeruntime_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
)

// TestProcess runs the program: it says where it listens, works, and ends in each of the ways it promises.
func TestProcess(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "edgeruntime")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/edgeruntime")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	dsn := pgtest.NewDatabase(t)
	ends := map[string]func(*edgeruntime.Process) error{
		"when its standard input closes": (*edgeruntime.Process).Stop,
		"on SIGTERM": func(p *edgeruntime.Process) error {
			if err := syscall.Kill(p.PID(), syscall.SIGTERM); err != nil {
				return err
			}
			return p.Wait()
		},
		"on SIGINT": func(p *edgeruntime.Process) error {
			if err := syscall.Kill(p.PID(), syscall.SIGINT); err != nil {
				return err
			}
			return p.Wait()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			p, err := edgeruntime.StartProcess(t.Context(), program, edgeruntime.Options{DatabaseURL: dsn, Key: key,
				Functions: map[string]edgeruntime.FunctionConfig{"f": edgeruntime.DefaultFunction()}}, t.Output())
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { g.Expect(p.Kill()).To(Succeed()) }()
			state, err := p.Client().State(t.Context(), "f")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(state.Config).To(Equal(edgeruntime.DefaultFunction()))
			g.Expect(end(p)).To(Succeed())
			_, err = p.Client().State(t.Context(), "f")
			g.Expect(err).To(MatchError(ContainSubstring("refused")))
		})
	}
	t.Run("with its parent", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		// The shell starts the program with an input that is no pipe, waits until it listens, prints its pid and ends.
		shell := exec.CommandContext(t.Context(), "sh", "-c", `
			echo '{"databaseUrl":"'"$1"'"}' >"$2/config"
			"$0" --config "$2/config" >"$2/out" 2>&1 </dev/null &
			until [ -s "$2/out" ]; do sleep 0.05; done
			echo $!`,
			program, dsn, t.TempDir())
		out, err := shell.Output()
		g.Expect(err).NotTo(HaveOccurred())
		pid := parsePID(g, out)
		g.Eventually(func() error { return syscall.Kill(pid, 0) }).WithTimeout(within).
			Should(MatchError(syscall.ESRCH))
	})
	t.Run("not at all with a bad configuration", func(t *testing.T) {
		t.Parallel()
		_, err := edgeruntime.StartProcess(t.Context(), program, edgeruntime.Options{DatabaseURL: "no://url"}, t.Output())
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("not ready")))
	})
}

func parsePID(g Gomega, text []byte) int {
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	g.Expect(err).NotTo(HaveOccurred())
	return pid
}
