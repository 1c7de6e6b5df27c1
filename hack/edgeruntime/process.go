package edgeruntime

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	readyTimeout = 20 * time.Second
	endTimeout   = 10 * time.Second
)

// Process is the stand-in as a process of its own.
type Process struct {
	// Addresses that it printed when it was ready.
	Addresses Addresses

	command *exec.Cmd
	stdin   io.Closer
	ended   chan struct{}
	stop    sync.Once
	err     error // of Wait; read after ended
}

// StartProcess runs the program at path (built from cmd/edgeruntime) with options and returns when it listens. The
// options go through its standard input, so that no credential is in its arguments; it ends when that input closes,
// which the end of the caller's process does by itself. Its log goes to stderr.
func StartProcess(ctx context.Context, path string, options Options, stderr io.Writer) (*Process, error) {
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("edge runtime options: %w", err)
	}
	command := exec.Command(path, "--config", "-") //nolint:noctx // outlives ctx, which bounds the start alone
	command.Stderr = stderr
	// A Ctrl-C at the terminal is the caller's to handle.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("edge runtime: %w", err)
	}
	out, into, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("edge runtime: %w", err)
	}
	defer func() { _ = out.Close() }()
	command.Stdout = into
	err = command.Start()
	_ = into.Close()
	if err != nil {
		return nil, fmt.Errorf("edge runtime: %w", err)
	}
	p := &Process{command: command, stdin: stdin, ended: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	if err := p.greet(ctx, stdin, encoded, out); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// greet hands over the options and reads the addresses.
func (p *Process) greet(ctx context.Context, stdin io.Writer, options []byte, out *os.File) error {
	if _, err := stdin.Write(append(options, '\n')); err != nil {
		return fmt.Errorf("edge runtime: hand over options: %w", err)
	}
	if err := out.SetReadDeadline(time.Now().Add(readyTimeout)); err != nil {
		return fmt.Errorf("edge runtime: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = out.SetReadDeadline(time.Now()) })()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p.Addresses)
	}
	if err != nil {
		return fmt.Errorf("edge runtime: not ready within the start deadline of %v: %w", readyTimeout,
			errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// Client of the process's control API.
func (p *Process) Client() *Client { return NewClient(p.Addresses.Control) }

// PID of the process.
func (p *Process) PID() int { return p.command.Process.Pid }

// Wait returns when the process has ended, with an error unless it ended by itself and well.
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Stop closes the process's standard input and returns when it has ended; after 10 s it is killed.
func (p *Process) Stop() error {
	p.stop.Do(func() { _ = p.stdin.Close() })
	select {
	case <-p.ended:
		return p.err
	case <-time.After(endTimeout):
		return errors.Join(fmt.Errorf("edge runtime: still there after the end deadline of %v", endTimeout), p.Kill())
	}
}

// Kill ends the process with SIGKILL and returns when it has ended.
func (p *Process) Kill() error {
	err := p.command.Process.Kill()
	<-p.ended
	p.stop.Do(func() { _ = p.stdin.Close() })
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
