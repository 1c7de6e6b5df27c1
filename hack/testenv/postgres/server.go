package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
	// pollInterval is how often a starting server is asked whether it takes connections.
	pollInterval = 20 * time.Millisecond
	// sqlstateStarting is cannot_connect_now.
	sqlstateStarting = "57P03"
)

// server is one run of the postgres program.
type server struct {
	command *exec.Cmd
	// ended is closed once the process is gone; err is set before that.
	ended chan struct{}
	err   error
}

// launch starts postgres on the cluster's port and returns when it takes connections. A server that did not get that
// far has ended when launch returns.
func (c *Cluster) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("PostgreSQL took no connections within %v of its start", startTimeout))
	defer cancel()

	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the server's log: %w", err)
	}
	defer log.Close()

	// Not bound to the context: that ends the start, not the running server.
	command := exec.Command(filepath.Join(c.binaries, "postgres"), //nolint:noctx,gosec // see above; found by FindBinaries
		"-D", c.dataDir(), "-p", strconv.Itoa(c.port))
	command.Dir, command.Env = c.dir, c.environment()
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = c.account.attributes()
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	s := &server{command: command, ended: make(chan struct{})}
	go func() {
		s.err = command.Wait()
		close(s.ended)
	}()
	err = c.guardian.Watch(serverName, command.Process.Pid)
	if err == nil {
		err = c.awaitReady(ctx, s)
	}
	if err != nil {
		return errors.Join(err, s.stop(syscall.SIGQUIT), c.guardian.Unwatch(serverName))
	}
	c.server = s
	return nil
}

// awaitReady polls until the server answers, ends, or the context does.
func (c *Cluster) awaitReady(ctx context.Context, s *server) error {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		connection, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return connection.Close(ctx)
		}
		// A refusal by a server that takes connections does not go away by waiting.
		var refusal *pgconn.PgError
		if errors.As(err, &refusal) && refusal.Code != sqlstateStarting {
			return fmt.Errorf("connecting to the new server: %w", err)
		}
		select {
		case <-poll.C:
		case <-s.ended:
			return fmt.Errorf("PostgreSQL ended at its start (%w); its log ends:\n%s", s.err, c.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w); its log ends:\n%s", context.Cause(ctx), err, c.logTail())
		}
	}
}

// stop sends the signal (SIGINT: fast shutdown, SIGQUIT: immediate) and waits for the end of the process; after
// stopTimeout it is killed. Whether the exit code is 0 does not matter here.
func (s *server) stop(signal syscall.Signal) error {
	if err := s.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling PostgreSQL: %w", err)
	}
	deadline := time.NewTimer(stopTimeout)
	defer deadline.Stop()
	select {
	case <-s.ended:
		return nil
	case <-deadline.C:
	}
	// Its children notice that it is gone and end.
	if err := s.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing PostgreSQL: %w", err)
	}
	<-s.ended
	return fmt.Errorf("PostgreSQL had not ended %v after %v and was killed", stopTimeout, signal)
}
