package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/freeport"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/guardian"
)

const (
	host      = "127.0.0.1"
	superuser = "postgres"
	// serverName is what the guardian knows the server by.
	serverName = "postgres"

	initdbTimeout  = 2 * time.Minute
	commandTimeout = 30 * time.Second
	// portAttempts bounds how often another port is tried when somebody took the last one.
	portAttempts = 5
	logTailBytes = 2048
)

// settings is what postgresql.conf gets beside initdb's defaults.
const settings = `
listen_addresses = '127.0.0.1'
unix_socket_directories = '%s'
max_connections = 300
fsync = off
full_page_writes = off
jit = off
timezone = 'UTC'
`

// Cluster is a PostgreSQL cluster of this process's own. Its methods may be called concurrently; those that start or
// stop the server wait for each other.
type Cluster struct {
	binaries string
	account  account
	dir      string
	password string
	guardian *guardian.Guardian

	// port is chosen in Start and stays.
	port int

	mu     sync.Mutex
	server *server // nil: stopped
}

// Start makes a cluster in a new directory below os.TempDir and returns when its server takes connections, about
// two seconds later. The context ends the attempt, not the running server; Stop ends that.
func Start(ctx context.Context) (*Cluster, error) {
	binaries, err := FindBinaries()
	if err != nil {
		return nil, err
	}
	account, err := serverAccount()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgflow-postgres-")
	if err != nil {
		return nil, fmt.Errorf("making the cluster's directory: %w", err)
	}
	guard, err := guardian.Start(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &Cluster{binaries: binaries, account: account, dir: dir, password: rand.Text(), guardian: guard}
	if err := c.create(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) create(ctx context.Context) error {
	if err := c.account.own(c.dir); err != nil {
		return fmt.Errorf("giving the cluster's directory to the server's user: %w", err)
	}
	if err := c.initdb(ctx); err != nil {
		return err
	}
	var failures []error
	for range portAttempts {
		var err error
		if c.port, err = freeport.Find(ctx); err != nil {
			return err
		}
		if err = c.StartServer(ctx); err == nil {
			return nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil || !strings.Contains(c.logTail(), "Address already in use") {
			break
		}
	}
	return errors.Join(failures...)
}

func (c *Cluster) initdb(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, initdbTimeout, fmt.Errorf("initdb did not end within %v", initdbTimeout))
	defer cancel()
	passwordFile := filepath.Join(c.dir, "password")
	if err := os.WriteFile(passwordFile, []byte(c.password), 0o600); err != nil {
		return fmt.Errorf("writing the password for initdb: %w", err)
	}
	if err := c.account.own(passwordFile); err != nil {
		return fmt.Errorf("giving the password file to the server's user: %w", err)
	}
	command := exec.CommandContext(ctx, filepath.Join(c.binaries, "initdb"), //nolint:gosec // found by FindBinaries
		"--pgdata", c.dataDir(), "--username", superuser, "--pwfile", passwordFile, "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C", "--no-sync")
	command.Dir, command.Env = c.dir, c.environment()
	command.SysProcAttr = c.account.attributes()
	if output, err := command.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	configuration, err := os.OpenFile(filepath.Join(c.dataDir(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("configuring the cluster: %w", err)
	}
	_, err = fmt.Fprintf(configuration, settings, c.dir)
	if err = errors.Join(err, configuration.Close()); err != nil {
		return fmt.Errorf("configuring the cluster: %w", err)
	}
	return nil
}

// URL returns the superuser's connection string for a database of this cluster, whether or not that exists.
func (c *Cluster) URL(database string) string {
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, c.password),
		Host:     net.JoinHostPort(host, strconv.Itoa(c.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}).String()
}

// CreateDatabase makes an empty database and returns its URL.
func (c *Cluster) CreateDatabase(ctx context.Context, name string) (string, error) {
	// template0, because nobody can be connected to it, which would make this fail.
	statement := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize() + " TEMPLATE template0"
	if err := c.execute(ctx, statement); err != nil {
		return "", err
	}
	return c.URL(name), nil
}

// DropDatabase removes a database, ending the connections that are open to it. One that is gone already is no error.
func (c *Cluster) DropDatabase(ctx context.Context, name string) error {
	return c.execute(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

// execute runs one statement in the database postgres, on a connection of its own: a pool would hold goroutines that
// tests look for.
func (c *Cluster) execute(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, fmt.Errorf("no answer within %v", commandTimeout))
	defer cancel()
	err := func() error {
		connection, err := pgx.Connect(ctx, c.URL("postgres"))
		if err != nil {
			return err
		}
		_, err = connection.Exec(ctx, statement)
		return errors.Join(err, connection.Close(ctx))
	}()
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// StartServer starts the stopped server again, on the same port; it does nothing while the server runs.
func (c *Cluster) StartServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		select {
		case <-c.server.ended: // crashed or killed
		default:
			return nil
		}
	}
	return c.launch(ctx)
}

// StopServer stops the server as an administrator would (fast shutdown: connections are cut, commits are kept).
// The cluster stays and StartServer brings it back.
func (c *Cluster) StopServer() error {
	return c.end(syscall.SIGINT)
}

// CrashServer ends the server without a shutdown: StartServer then recovers from the log, as after a crash.
func (c *Cluster) CrashServer() error {
	return c.end(syscall.SIGQUIT)
}

// Restart stops the server and starts it again on the same port.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.StopServer(); err != nil {
		return err
	}
	return c.StartServer(ctx)
}

func (c *Cluster) end(signal syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return nil
	}
	err := c.server.stop(signal)
	c.server = nil
	return errors.Join(err, c.guardian.Unwatch(serverName))
}

// Stop ends the server and removes the cluster's directory. It is the last call on a Cluster.
func (c *Cluster) Stop() error {
	return errors.Join(c.end(syscall.SIGINT), c.guardian.Release())
}

func (c *Cluster) dataDir() string { return filepath.Join(c.dir, "data") }
func (c *Cluster) logFile() string { return filepath.Join(c.dir, "log") }

// environment leaves out the caller's, whose PG* variables would have a say.
func (c *Cluster) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "LC_ALL=C"}
}

// logTail returns the end of the server's log, for errors.
func (c *Cluster) logTail() string {
	log, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(log[max(0, len(log)-logTailBytes):]))
}
