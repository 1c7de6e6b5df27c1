package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// operatorEnd is how long the operator may take to end.
	operatorEnd  = 15 * time.Second
	logTailBytes = 2048

	// The names of two Secrets, as Supabase's Helm chart has them.
	databaseSecret = "supabase-db"  //nolint:gosec // G101: a name
	authSecret     = "supabase-jwt" //nolint:gosec // G101: a name
)

// errOperatorEnded: the operator ended without being told to.
var errOperatorEnded = errors.New("the operator ended")

// startOperator starts the operator as config/manager does: with the set of Secrets in its own namespace, and with the
// permissions of config/rbac.
func (w *world) startOperator() error {
	database, err := url.Parse(w.main.databaseURL)
	if err != nil {
		return fmt.Errorf("the database's URL: %w", err)
	}
	args := []string{
		"--functions-url=" + w.main.runtime.Addresses.FunctionsURL(),
		"--auth-secret=" + authSecret + "/serviceKey",
		"--database-secret=" + databaseSecret + "/password",
		"--database-host=" + database.Hostname(),
		"--database-port=" + database.Port(),
		"--database-name=" + strings.TrimPrefix(database.Path, "/"),
		"--log-format=console",
		// No ports, so that there is none to be taken by somebody else.
		"--metrics-bind-address=0",
		"--health-probe-bind-address=0",
	}
	w.n.command(append([]string{"manager"}, args...)...)
	log, err := os.OpenFile(w.operatorLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the operator's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	environment := append(os.Environ(), "KUBECONFIG="+w.operatorKubeconfig(), "POD_NAMESPACE="+namespace, "DATABASE_URL=")
	w.operator, err = startChild(w.guard, "manager", w.program("manager"), args, environment, log)
	return err
}

func (w *world) endOperator() error {
	if w.operator == nil || w.operator.gone() {
		return nil
	}
	return w.operator.end(operatorEnd)
}

// await polls until the condition holds. Its error says what was waited for and how long; it is errOperatorEnded's when
// the operator ended meanwhile.
func (w *world) await(ctx context.Context, what string, timeout time.Duration, condition func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("waited %v for this: %s", timeout, what))
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		met, err := condition(ctx)
		switch {
		case ctx.Err() != nil:
			return w.expired(ctx)
		case err != nil:
			return fmt.Errorf("waiting for this: %s: %w", what, err)
		case met:
			return nil
		case w.operator.gone():
			return fmt.Errorf("%w (%s) while waiting for this: %s; its log ends:\n%s", errOperatorEnded, w.operator.outcome(), what, w.logTail())
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return w.expired(ctx)
		}
	}
}

// expired is the error of a wait whose context has ended.
func (w *world) expired(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errInterrupted) {
		return cause
	}
	return fmt.Errorf("%w; the operator's log ends:\n%s", cause, w.logTail())
}

func (w *world) operatorLog() string { return filepath.Join(w.dir, "manager.log") }

// logTail returns the end of the operator's log, for errors.
func (w *world) logTail() string {
	log, err := os.ReadFile(w.operatorLog())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(log[max(0, len(log)-logTailBytes):]))
}
