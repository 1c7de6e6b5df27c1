package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/guardian"
)

// child is a process that runs beside the demo until it is ended.
type child struct {
	name    string
	guard   *guardian.Guardian
	command *exec.Cmd
	// ended is closed once the process is gone.
	ended chan struct{}
}

// startChild starts a program that the guardian ends should this process die first. It has a process group of its own:
// Ctrl-C at the terminal is for the demo to handle.
func startChild(guard *guardian.Guardian, name, path string, args, environment []string, log io.Writer) (*child, error) {
	command := exec.Command(path, args...) //nolint:noctx,gosec // ended by crash or end; built here
	command.Env, command.Stdout, command.Stderr = environment, log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	c := &child{name: name, guard: guard, command: command, ended: make(chan struct{})}
	go func() {
		_ = command.Wait() // outcome says it
		close(c.ended)
	}()
	if err := guard.Watch(name, command.Process.Pid); err != nil {
		return nil, errors.Join(err, c.crash())
	}
	return c, nil
}

func (c *child) pid() int { return c.command.Process.Pid }

// gone says whether the process has ended.
func (c *child) gone() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// outcome says how the process, which is gone, ended.
func (c *child) outcome() string { return c.command.ProcessState.String() }

// crash kills the process and returns when it is gone.
func (c *child) crash() error {
	if err := c.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", c.name, err)
	}
	<-c.ended
	return c.guard.Unwatch(c.name)
}

// end asks the process to end and returns when it is gone; after the timeout it is killed, which is an error.
func (c *child) end(timeout time.Duration) error {
	if err := c.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s: %w", c.name, err)
	}
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	select {
	case <-c.ended:
		return c.guard.Unwatch(c.name)
	case <-deadline.C:
		return errors.Join(fmt.Errorf("%s had not ended %v after SIGTERM and was killed", c.name, timeout), c.crash())
	}
}
