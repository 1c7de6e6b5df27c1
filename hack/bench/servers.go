package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/guardian"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/kubetest"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/postgres"
)

const (
	buildTimeout    = 2 * time.Minute
	databaseTimeout = 10 * time.Second
)

// servers are what both sides use, and the programs built for this run.
type servers struct {
	postgres *postgres.Cluster
	kube     *kubetest.Env
	// dir holds the programs and the operator's files; the guardian removes it.
	dir      string
	guardian *guardian.Guardian
}

// startServers starts all at the same time, because each takes seconds. The caller calls stop.
func startServers(ctx context.Context) (*servers, error) {
	dir, err := os.MkdirTemp("", "pgflow-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	s := &servers{dir: dir}
	if s.guardian, err = guardian.Start(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	var database, kube, programs error
	var all sync.WaitGroup
	all.Go(func() { database = s.startPostgres(ctx) })
	all.Go(func() { s.kube, kube = kubetest.Start() })
	all.Go(func() {
		programs = errors.Join(s.build(ctx, "manager", "."), s.build(ctx, "edgeruntime", "./hack/edgeruntime/cmd/edgeruntime"))
	})
	all.Wait()
	if err := errors.Join(database, kube, programs); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// startPostgres starts a cluster and gives it back the defaults that clusters for tests do without.
func (s *servers) startPostgres(ctx context.Context) (err error) {
	if s.postgres, err = postgres.Start(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, databaseTimeout, fmt.Errorf("PostgreSQL was not durable within %v", databaseTimeout))
	defer cancel()
	connection, err := pgx.Connect(ctx, s.postgres.URL("postgres"))
	if err != nil {
		return fmt.Errorf("making PostgreSQL durable: %w", err)
	}
	defer func() { err = errors.Join(err, connection.Close(ctx)) }()
	for _, statement := range []string{
		"ALTER SYSTEM SET fsync = on",
		"ALTER SYSTEM SET full_page_writes = on",
		"SELECT pg_reload_conf()",
	} {
		if _, err := connection.Exec(ctx, statement); err != nil {
			return fmt.Errorf("making PostgreSQL durable: %w", errors.Join(context.Cause(ctx), err))
		}
	}
	return nil
}

// build builds a program of this repository, as for a release, into dir.
func (s *servers) build(ctx context.Context, name, pkg string) error {
	root, err := kubetest.RepositoryRoot()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, buildTimeout, fmt.Errorf("not built within %v", buildTimeout))
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", s.program(name), pkg) //nolint:gosec // packages of this repository
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, errors.Join(context.Cause(ctx), err), output)
	}
	return nil
}

// program returns the path of a program that was built.
func (s *servers) program(name string) string { return filepath.Join(s.dir, name) }

// stop ends the servers and removes what they left.
func (s *servers) stop() error {
	var errs []error
	if s.kube != nil {
		errs = append(errs, s.kube.Stop())
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Stop())
	}
	return errors.Join(append(errs, s.guardian.Release())...)
}
