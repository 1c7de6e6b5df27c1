// Package pgtest gives tests a real PostgreSQL: one private cluster per test binary and a fresh database per test, so
// that tests run in parallel and depend on nothing.
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		url := pgtest.NewDatabase(t)
//
// Ginkgo suites use Start and Cluster.NewDatabase.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/postgres"
)

// Cluster is a PostgreSQL cluster for tests; see package postgres for what holds for it. All methods may be called
// concurrently.
type Cluster struct {
	*postgres.Cluster

	databases atomic.Int64
}

// mainCluster is the cluster of Main, set before any test runs.
var mainCluster *Cluster

// Main starts the test binary's cluster, runs the tests and removes the cluster. It returns the exit code for TestMain:
// that of the tests, or 1 when the cluster could not be started or when goroutines are left after the tests; options
// name those that may be.
func Main(m *testing.M, options ...goleak.Option) int {
	cluster, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	mainCluster = cluster
	code := m.Run()
	cluster.Stop()
	if code != 0 {
		return code
	}
	if err := goleak.Find(options...); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: goroutines are left after the tests:", err)
		return 1
	}
	return 0
}

// Start makes a cluster, which takes about two seconds. The caller calls Stop.
func Start() (*Cluster, error) {
	cluster, err := postgres.Start(context.Background())
	if err != nil {
		return nil, err
	}
	return &Cluster{Cluster: cluster}, nil
}

// Stop ends the server and removes the cluster. What goes wrong is printed: the tests' result stands already.
func (c *Cluster) Stop() {
	if err := c.Cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: stopping PostgreSQL:", err)
	}
}

// NewDatabase returns the URL of a fresh, empty database in the cluster of Main. The database is dropped, with
// the connections that are open to it, when the test ends.
func NewDatabase(t testing.TB) string {
	t.Helper()
	if mainCluster == nil {
		t.Fatal("pgtest: NewDatabase needs pgtest.Main in TestMain")
	}
	return mainCluster.NewDatabase(t)
}

// NewDatabase returns the URL of a fresh, empty database in this cluster, dropped when the test ends.
func (c *Cluster) NewDatabase(t testing.TB) string {
	t.Helper()
	name := "test_" + strconv.FormatInt(c.databases.Add(1), 10)
	url, err := c.CreateDatabase(t.Context(), name)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := c.DropDatabase(context.WithoutCancel(t.Context()), name); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return url
}
