// Package faults_test runs the operator as a process, built with the race detector, between a real API server, a real
// PostgreSQL and the edge runtime's stand-in, and breaks what is around it: processes, connections, servers.
//
// What happened is judged from facts that the operator has no hand in: the log of an audit trigger in the database and
// the stand-in's log of requests (audit_test.go). Every world is judged when its test ends, whatever else the test
// asserts: at most one pending invocation per registration, at most one worker per invocation, never a worker admitted
// beside a healthy one, no gap between reservation and readiness, one request per reservation where a second one is not
// allowed, no credential in any log, status or event, and no data race.
//
// Every world has a namespace, a database and a stand-in of its own. Its operators reach all three through proxies that
// can be frozen and cut; the one before the API server also shows only the world's namespace, so that one API
// server serves all worlds at the same time.
package faults_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/guardian"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/kubetest"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
)

// parallelTests run at once. They wait for timeouts most of the time, so there are more than processors.
const parallelTests = "24"

// buildTimeout bounds the build of the operator, which may find nothing in the cache.
const buildTimeout = 15 * time.Minute

// servers are shared by all worlds.
type servers struct {
	postgres *pgtest.Cluster
	kube     *kubetest.Env
	admin    client.WithWatch
	// dir is removed, and the processes of the guardian ended, however this process ends.
	dir      string
	guardian *guardian.Guardian
	manager  string
}

var shared servers

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	log.SetLogger(logr.Discard()) // of the clients; the operators log by themselves
	if err := flag.Set("test.parallel", parallelTests); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	begun := time.Now()
	code := 1
	if err := shared.start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		fmt.Printf("servers started, operator built in %v\n", time.Since(begun).Round(time.Millisecond))
		code = m.Run()
	}
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
			return 1
		}
	}
	return code
}

// start starts the servers and builds the operator, all at the same time.
func (s *servers) start() error {
	var err error
	if s.dir, err = os.MkdirTemp("", "pgflow-faults-"); err != nil {
		return err
	}
	if s.guardian, err = guardian.Start(s.dir); err != nil {
		return errors.Join(err, os.RemoveAll(s.dir))
	}
	s.manager = filepath.Join(s.dir, "manager")
	failures := make(chan error)
	starts := []func() error{
		func() (err error) { s.postgres, err = pgtest.Start(); return err },
		func() (err error) { s.kube, err = kubetest.Start(); return err },
		func() error { return build(s.manager) },
	}
	for _, start := range starts {
		go func() { failures <- start() }()
	}
	for range starts {
		err = errors.Join(err, <-failures)
	}
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(workersv1alpha1.AddToScheme(scheme))
	config := rest.CopyConfig(s.kube.Config)
	config.QPS = -1 // the tests poll
	s.admin, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return err
}

func build(path string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), buildTimeout, fmt.Errorf("not built within %v", buildTimeout))
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-race", "-o", path, "../..")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the operator: %w\n%s", errors.Join(err, context.Cause(ctx)), output)
	}
	return nil
}

func (s *servers) stop() error {
	var errs []error
	if s.kube != nil {
		errs = append(errs, s.kube.Stop())
	}
	if s.postgres != nil {
		s.postgres.Stop()
	}
	if s.guardian != nil {
		errs = append(errs, s.guardian.Release())
	}
	if s.kube != nil {
		if transport, err := rest.TransportFor(s.kube.Config); err == nil {
			closeIdle(transport)
		}
	}
	return errors.Join(errs...)
}
