package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const (
	// playTimeout leaves room for builds and for a machine that is busy with other tests.
	playTimeout = 5 * time.Minute
	endTimeout  = 60 * time.Second
)

// program is the demo, built once.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), playTimeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "pgflow-demo-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "demo")
	if output, err := exec.CommandContext(ctx, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the demo: %v\n%s", err, output)
		return 1
	}
	return m.Run()
}

// demo is a running demo. All that it starts can be told by its temporary directory, which is its alone.
type demo struct {
	Gomega
	t       *testing.T
	tmp     string
	command *exec.Cmd
	output  *output
	ended   chan struct{}
	err     error
}

type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

func startDemo(t *testing.T, args ...string) *demo {
	t.Helper()
	g := NewWithT(t)
	tmp, err := os.MkdirTemp("", "pgflow-demo-test-") //nolint:usetesting // PostgreSQL's user must be able to enter it
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(os.RemoveAll(tmp)).To(Succeed()) })
	g.Expect(os.Chmod(tmp, 0o755)).To(Succeed())
	d := &demo{Gomega: g, t: t, tmp: tmp, output: &output{}, ended: make(chan struct{})}
	d.command = exec.CommandContext(context.WithoutCancel(t.Context()), program, args...) // killed below
	d.command.Env = append(os.Environ(), "TMPDIR="+tmp)
	d.command.Stdout, d.command.Stderr = d.output, d.output
	d.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.Expect(d.command.Start()).To(Succeed())
	go func() {
		d.err = d.command.Wait()
		close(d.ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-d.command.Process.Pid, syscall.SIGKILL) // it has ended where the test went well
		<-d.ended
		if t.Failed() {
			t.Logf("it printed:\n%s", d.output)
		}
	})
	return d
}

// prints waits until the text was printed.
func (d *demo) prints(text string) {
	d.t.Helper()
	d.Eventually(func() string {
		select {
		case <-d.ended:
			return d.output.String() + "\n(it has ended)"
		default:
			return d.output.String()
		}
	}).WithTimeout(playTimeout).WithPolling(20 * time.Millisecond).Should(ContainSubstring(text))
}

// exits waits for its end and returns the exit code.
func (d *demo) exits(within time.Duration) int {
	d.t.Helper()
	d.Eventually(d.ended).WithTimeout(within).Should(BeClosed())
	return d.command.ProcessState.ExitCode()
}

// processes returns all processes of the demo that live, whatever their group or parent: those that have its
// directory among their arguments or in their environment, and those of its group.
func (d *demo) processes() []string {
	d.t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		d.t.Skip("processes are looked up in /proc, which this system does not have")
	}
	directories, err := filepath.Glob("/proc/[0-9]*")
	d.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, directory := range directories {
		// What cannot be read has ended meanwhile, or is somebody else's.
		arguments, _ := os.ReadFile(filepath.Join(directory, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(directory, "environ"))
		status, _ := os.ReadFile(filepath.Join(directory, "stat"))
		if bytes.Contains(arguments, []byte(d.tmp)) || bytes.Contains(environment, []byte(d.tmp)) || d.inGroup(status) {
			found = append(found, filepath.Base(directory)+" "+string(bytes.ReplaceAll(arguments, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// inGroup reads /proc/<pid>/stat: pid (name) state parent group …
func (d *demo) inGroup(stat []byte) bool {
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	return len(fields) > 2 && fields[0] != "Z" && fields[2] == strconv.Itoa(d.command.Process.Pid)
}

// leavesNothing checks that no process and no file is left.
func (d *demo) leavesNothing() {
	d.t.Helper()
	d.Expect(d.processes()).To(BeEmpty())
	d.Expect(os.ReadDir(d.tmp)).To(BeEmpty())
}

// runs checks that the look-up of processes finds what it must, or leavesNothing would prove nothing.
func (d *demo) runs(programs ...string) {
	d.t.Helper()
	processes := d.processes()
	for _, program := range programs {
		d.Expect(processes).To(ContainElement(ContainSubstring(program)), "%s runs", program)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	d.Expect(d.exits(playTimeout)).To(Equal(0))
	d.leavesNothing()

	_, summary, _ := strings.Cut(d.output.String(), "What was seen")
	for _, f := range facts {
		d.Expect(summary).To(ContainSubstring("✓ "+f.name), "in the summary")
	}
	d.Expect(summary).To(ContainSubstring(fmt.Sprintf("%d of %d seen", len(facts), len(facts))))
	d.Expect(summary).NotTo(ContainSubstring("✗"))
	// What kubectl said, not only what the demo says about it.
	for _, row := range []string{`hello-worker +False +Pending +Starting`, `hello-worker +True +Ready +WorkerReady`,
		`hello-worker +True +Pending +Replacing`, `slow-boot +False +Pending +Starting`} {
		d.Expect(d.output.String()).To(MatchRegexp(row))
	}
}

func TestCtrlCInTheMiddle(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	d.prints("$ kubectl wait --for=condition=Ready wfn --all")
	d.runs("postgres", "etcd", "kube-apiserver", "manager", "edgeruntime", "pgflow-guardian")
	// As the terminal does it: to the whole foreground group.
	d.Expect(syscall.Kill(-d.command.Process.Pid, syscall.SIGINT)).To(Succeed())
	d.Expect(d.exits(endTimeout)).To(Equal(exitInterrupted))
	d.leavesNothing()
	d.Expect(d.output.String()).NotTo(ContainSubstring("What was seen"))
}

// The demo cannot clean up here; the guardians do.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	d.prints("Act 1")
	d.runs("postgres", "etcd", "kube-apiserver", "manager", "edgeruntime", "pgflow-guardian")
	d.Expect(d.command.Process.Kill()).To(Succeed())
	d.exits(endTimeout)
	d.Eventually(d.processes).WithTimeout(endTimeout).Should(BeEmpty())
	d.leavesNothing()
}

// Every line that --keep prints to play with works as it stands.
func TestKeep(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--keep")
	d.prints("Ctrl-C ends everything.")
	_, text, _ := strings.Cut(d.output.String(), "In another terminal:")
	var environment []string
	ran := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch word, _, _ := strings.Cut(line, " "); {
		case word == "export" || strings.HasPrefix(word, "CONTROL="):
			environment = append(environment, line)
		case strings.Contains(line, "--watch"), word == "tail": // these do not end
		case word == "curl", word == "kubectl", word == "echo", strings.HasSuffix(word, "psql"):
			if word == "curl" {
				line = strings.Replace(line, "curl", "curl -sS --fail", 1)
			}
			script := strings.Join(append(environment, line), "\n")
			printed, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script).CombinedOutput()
			d.Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, printed)
			ran++
		}
	}
	d.Expect(ran).To(BeNumerically(">", 15), "lines that were run")
	d.prints("mine")
	d.Expect(d.command.Process.Signal(syscall.SIGINT)).To(Succeed())
	d.Expect(d.exits(endTimeout)).To(Equal(0))
	d.leavesNothing()
}
