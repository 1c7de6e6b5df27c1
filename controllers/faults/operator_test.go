package faults_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/freeport"
)

// exitTimeout is when an operator that was told to end is killed, and the test failed.
const exitTimeout = time.Minute

var operators atomic.Int64

// operator is one process of the operator.
type operator struct {
	t    testing.TB
	name string
	// api is the way to the API server, of this process alone.
	api     *proxy
	command *exec.Cmd
	log     string
	probe   string
	// ended is closed when the process has; code is set before that, -1 after a signal.
	ended chan struct{}
	code  int
}

// operator starts the operator for this world; args are added to its usual ones. It is killed when the test ends.
func (w *world) operator(args ...string) *operator {
	w.t.Helper()
	usual := []string{
		"--namespace=" + w.namespace, "--functions-url=" + w.functionsURL(),
		"--database-secret=operator/url", "--auth-secret=operator/key",
	}
	return w.process(append(usual, args...)...)
}

// process starts the operator's program.
func (w *world) process(args ...string) *operator {
	t := w.t
	t.Helper()
	o := &operator{t: t, name: fmt.Sprintf("operator-%d", operators.Add(1)), ended: make(chan struct{})}
	o.api = newProxy(t, w.view.address())
	o.log = filepath.Join(shared.dir, o.name+".log")
	port, err := freeport.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.probe = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	kubeconfig := filepath.Join(shared.dir, o.name+".kubeconfig")
	config := &rest.Config{Host: "https://" + o.api.address, BearerToken: w.account.BearerToken}
	config.CAData = w.view.certificate()
	if err := shared.kube.WriteKubeconfig(config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(o.log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	args = append(args, "--metrics-bind-address=0", "--health-probe-bind-address="+o.probe, "--log-level=1")
	o.command = exec.CommandContext(context.Background(), shared.manager, args...)
	o.command.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + shared.dir, "PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=0"}
	o.command.Stdout, o.command.Stderr = log, log
	if err := o.command.Start(); err != nil {
		t.Fatal(err)
	}
	watched := shared.guardian.Watch(o.name, o.command.Process.Pid)
	go func() {
		_ = o.command.Wait() // the state says it all
		o.code = o.command.ProcessState.ExitCode()
		_ = shared.guardian.Unwatch(o.name)
		close(o.ended)
	}()
	if watched != nil {
		t.Error(watched)
	}
	w.operators = append(w.operators, o)
	t.Cleanup(func() {
		o.kill()
		if t.Failed() {
			t.Logf("the log of %s ends:\n%s", o.name, tail(o.output(), 6000))
		}
	})
	return o
}

// kill ends the process with SIGKILL and waits until it is gone.
func (o *operator) kill() {
	_ = o.command.Process.Kill() // it may be gone
	<-o.ended
}

// terminate sends SIGTERM and returns how long the process took to end.
func (o *operator) terminate() time.Duration {
	o.t.Helper()
	begun := time.Now()
	if err := o.command.Process.Signal(syscall.SIGTERM); err != nil {
		o.t.Errorf("SIGTERM: %v", err)
	}
	return o.wait(begun)
}

// wait returns when the process has ended by itself, and how long after begun.
func (o *operator) wait(begun time.Time) time.Duration {
	o.t.Helper()
	select {
	case <-o.ended:
	case <-time.After(exitTimeout):
		o.kill()
		o.t.Errorf("%s had not ended after %v and was killed", o.name, exitTimeout)
	}
	return time.Since(begun)
}

func (o *operator) running() bool {
	select {
	case <-o.ended:
		return false
	default:
		return true
	}
}

// probes returns an error unless the probe of that name answers 200.
func (o *operator) probes(name string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	rq, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, "http://"+o.probe+"/"+name, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(rq)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", name, response.Status)
	}
	return nil
}

// output is what the process wrote so far.
func (o *operator) output() string {
	text, err := os.ReadFile(o.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// lines of the output that contain all of the words.
func (o *operator) lines(words ...string) []string {
	var found []string
	for line := range strings.Lines(o.output()) {
		has := true
		for _, word := range words {
			has = has && strings.Contains(line, word)
		}
		if has {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func tail(text string, bytes int) string { return text[max(0, len(text)-bytes):] }
