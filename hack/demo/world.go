package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/guardian"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/kubetest"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/postgres"
)

// namespace is the operator's and the samples'.
const namespace = "supabase"

// buildEnd is how long an interrupted go build may take to end.
const buildEnd = 10 * time.Second

// world is everything that runs.
type world struct {
	n     *narrator
	root  string // of the repository
	dir   string // of this demo's files
	guard *guardian.Guardian

	postgres *postgres.Cluster
	kube     *kubetest.Env
	history  *history
	operator *child

	// main is the Supabase that the operator is installed beside, other that of the sample with credentials of its own.
	main, other *supabase

	ends []func() error
}

// atEnd has end called when the world ends, the last one first.
func (w *world) atEnd(end func() error) { w.ends = append(w.ends, end) }

// end ends everything, in the reverse order of its start, and removes all files.
func (w *world) end() error {
	var errs []error
	for _, end := range slices.Backward(w.ends) {
		errs = append(errs, end())
	}
	w.ends = nil
	return errors.Join(errs...)
}

// newWorld makes the directory; nothing runs yet but its guardian.
func newWorld(n *narrator) (*world, error) {
	root, err := kubetest.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgflow-demo-")
	if err != nil {
		return nil, fmt.Errorf("making the demo's directory: %w", err)
	}
	guard, err := guardian.Start(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	w := &world{n: n, root: root, dir: dir, guard: guard}
	w.atEnd(guard.Release)
	return w, nil
}

func (w *world) program(name string) string { return filepath.Join(w.dir, name) }
func (w *world) kubeconfig() string         { return filepath.Join(w.dir, "kubeconfig") }
func (w *world) operatorKubeconfig() string { return filepath.Join(w.dir, "operator.kubeconfig") }
func (w *world) file(name string) string    { return filepath.Join(w.dir, name) }
func (w *world) write(name, content string) error {
	if err := os.WriteFile(w.file(name), []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// build builds the operator and the stand-in.
func (w *world) build(ctx context.Context) error {
	for name, pkg := range map[string]string{"manager": ".", "edgeruntime": "./hack/edgeruntime/cmd/edgeruntime"} {
		w.n.aside("building %s …", name)
		silence := w.n.during("building " + name)
		command := exec.CommandContext(ctx, "go", "build", "-o", w.program(name), pkg) //nolint:gosec // constants
		command.Dir = w.root
		// Interrupted, go ends the compilers that it started; killed, it would leave them.
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGINT) }
		command.WaitDelay = buildEnd
		output, err := command.CombinedOutput()
		silence()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("building %s: %w\n%s", name, err, output)
		}
	}
	return nil
}

// startServers starts PostgreSQL and the API server, at the same time, and returns when both have started or failed: what
// began to start has to be ended, too.
func (w *world) startServers(ctx context.Context) error {
	w.n.aside("starting PostgreSQL, etcd and kube-apiserver …")
	crds := w.file("no-crds") // kubectl installs them
	if err := os.Mkdir(crds, 0o700); err != nil {
		return fmt.Errorf("preparing the API server: %w", err)
	}
	started := make(chan error, 1)
	go func() {
		var err error
		w.postgres, err = postgres.Start(ctx)
		started <- err
	}()
	kube, kubeErr := kubetest.Start(crds)
	postgresErr := <-started
	if kubeErr == nil {
		w.kube = kube
		w.atEnd(kube.Stop)
	}
	if postgresErr == nil {
		w.atEnd(w.postgres.Stop)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(postgresErr, kubeErr)
}

// prepare brings the world to the point where the operator runs and knows of no function.
func (w *world) prepare(ctx context.Context, wallClock time.Duration) error {
	if err := w.build(ctx); err != nil {
		return err
	}
	w.n.begun = time.Now() // what a person waits for beyond the builds
	if err := w.startServers(ctx); err != nil {
		return err
	}

	w.n.heading("Two Supabases, each with pgflow's database and edge functions")
	var err error
	if w.main, err = w.startSupabase(ctx, "supabase", edgeruntime.Options{Default: boots(helloBoot, wallClock),
		Functions: map[string]edgeruntime.FunctionConfig{slowFunction: *boots(slowBootTime, wallClock)}}); err != nil {
		return err
	}
	if w.other, err = w.startSupabase(ctx, "other_supabase", edgeruntime.Options{Default: boots(helloBoot, wallClock)}); err != nil {
		return err
	}

	w.n.heading("The operator in Kubernetes, with the permissions of config/rbac")
	operator, err := w.kube.OperatorConfig(ctx, namespace)
	if err != nil {
		return err
	}
	if err := errors.Join(w.kube.WriteKubeconfig(operator, w.operatorKubeconfig()),
		w.kube.WriteKubeconfig(w.kube.Config, w.kubeconfig())); err != nil {
		return err
	}
	password, err := w.main.password()
	if err != nil {
		return err
	}
	for _, command := range [][]string{
		{"config", "set-context", "--current", "--namespace=" + namespace},
		{"apply", "-k", "config/crd"},
		{"wait", "--for=condition=Established", "crd/workerfunctions.workers.pgflow.dev", "--timeout=30s"},
		{"create", "secret", "generic", databaseSecret, "--from-literal=password=" + password},
		{"create", "secret", "generic", authSecret, "--from-literal=serviceKey=" + w.main.key},
	} {
		if err := w.kubectl(ctx, command...); err != nil {
			return err
		}
	}
	if w.history, err = watchHistory(ctx, w.kube.Config); err != nil {
		return err
	}
	w.atEnd(func() error { w.history.end(); return nil })
	w.atEnd(w.endOperator)
	return w.startOperator()
}
