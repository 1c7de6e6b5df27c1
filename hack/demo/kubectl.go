package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// commandTimeout bounds every kubectl and migrate; kubectl wait has a shorter one of its own.
const commandTimeout = 60 * time.Second

// kubectl shows a command line, runs it and shows what it wrote.
func (w *world) kubectl(ctx context.Context, args ...string) error {
	return w.show(ctx, append([]string{"kubectl"}, args...), w.kube.Kubectl(), w.kubectlEnvironment())
}

// manager shows and runs a subcommand of the operator's program against a database.
func (w *world) manager(ctx context.Context, databaseURL string, args ...string) error {
	variable := "DATABASE_URL=" + databaseURL
	return w.show(ctx, append([]string{variable, "manager"}, args...), w.program("manager"), append(os.Environ(), variable))
}

// kubectlEnvironment keeps kubectl from the caller's clusters, and its cache from the caller's home.
func (w *world) kubectlEnvironment() []string {
	return append(os.Environ(), "KUBECONFIG="+w.kubeconfig(), "HOME="+w.dir,
		"KUBECACHEDIR="+filepath.Join(w.dir, "kubectl-cache"), "KUBERC=off")
}

// show prints the line and runs the program with the line's arguments, those after its name.
func (w *world) show(ctx context.Context, line []string, path string, environment []string) error {
	w.n.command(line...)
	name := slices.IndexFunc(line, func(word string) bool { return !strings.Contains(word, "=") })
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, fmt.Errorf("it had not ended after %v", commandTimeout))
	defer cancel()
	command := exec.CommandContext(ctx, path, line[name+1:]...) //nolint:gosec // our own
	command.Dir, command.Env = w.root, environment
	// Ctrl-C is for the demo to handle.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	err := command.Run()
	w.n.output(output.String())
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", line[name], line[name+1], err, problems.String())
	}
	return nil
}
