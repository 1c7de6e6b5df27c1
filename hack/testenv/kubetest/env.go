package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/freeport"
	"github.com/pgflow-operator/pgflow-operator/hack/testenv/guardian"
)

const (
	// startTimeout and stopTimeout leave room for a machine that is busy with other tests.
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second

	host           = "127.0.0.1"
	apiServerName  = "kube-apiserver"
	etcdName       = "etcd"
	crdBasesFolder = "config/crd/bases"
)

// Env is a running API server with its etcd. Its methods may be called concurrently; those that stop or start the
// API server wait for each other.
type Env struct {
	// Config is an administrator's. It stays valid while the API server is stopped and started.
	Config *rest.Config

	// AssetsDir holds the programs, kubectl among them.
	AssetsDir string

	root        string
	dir         string
	guardian    *guardian.Guardian
	environment *envtest.Environment

	mu sync.Mutex
}

// Start starts etcd and an API server, installs the custom resource definitions of the directories, or this repository's
// where none is given, and returns when these are served, about ten seconds later. The caller calls Stop.
func Start(crdDirs ...string) (*Env, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return nil, err
	}
	assets, err := Assets(context.Background())
	if err != nil {
		return nil, err
	}
	if len(crdDirs) == 0 {
		crdDirs = []string{filepath.Join(root, crdBasesFolder)}
	}
	dir, err := os.MkdirTemp("", "pgflow-kube-")
	if err != nil {
		return nil, fmt.Errorf("making the API server's directory: %w", err)
	}
	guard, err := guardian.Start(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	e := &Env{AssetsDir: assets, root: root, dir: dir, guardian: guard}
	if err := e.start(crdDirs); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

func (e *Env) start(crdDirs []string) error {
	port, err := freeport.Find(context.Background())
	if err != nil {
		return err
	}
	apiServer, etcd := &envtest.APIServer{}, &envtest.Etcd{}
	// Own directories and a fixed port make it possible to start the API server again as the same one.
	apiServer.CertDir, etcd.DataDir = filepath.Join(e.dir, "certificates"), filepath.Join(e.dir, "etcd")
	apiServer.Address, apiServer.Port = host, strconv.Itoa(port)
	for _, dir := range []string{apiServer.CertDir, etcd.DataDir} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("preparing the API server: %w", err)
		}
	}
	if apiServer.Path, err = e.wrap(apiServerName); err != nil {
		return err
	}
	if etcd.Path, err = e.wrap(etcdName); err != nil {
		return err
	}
	existing := false
	e.environment = &envtest.Environment{
		ControlPlane:             envtest.ControlPlane{APIServer: apiServer, Etcd: etcd, KubectlPath: e.Kubectl()},
		CRDDirectoryPaths:        crdDirs,
		ErrorIfCRDPathMissing:    true,
		UseExistingCluster:       &existing,
		ControlPlaneStartTimeout: startTimeout,
	}
	e.Config, err = e.environment.Start()
	// envtest makes certificates for webhooks, of which there are none, in a directory that is not ours.
	err = errors.Join(err, e.environment.WebhookInstallOptions.Cleanup())
	switch {
	case err != nil && e.Config != nil: // it runs, but what was to be installed was refused
		return fmt.Errorf("preparing the API server: %w", err)
	case err != nil:
		return fmt.Errorf("starting the API server: %w; the logs end:\n%s\n%s", err, e.logTail(etcdName), e.logTail(apiServerName))
	}
	return nil
}

// Kubectl returns the path of kubectl.
func (e *Env) Kubectl() string { return filepath.Join(e.AssetsDir, "kubectl") }

// StopAPIServer ends the API server at once, as a crash would; etcd keeps what it knows. A graceful stop would wait a
// minute for the clients that watch. It does nothing while the API server is stopped.
func (e *Env) StopAPIServer() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kill(apiServerName)
}

// kill ends one of the two programs, if it runs, and waits until it is gone.
func (e *Env) kill(name string) error {
	pid, err := e.guardian.PID(name)
	if err != nil || pid == 0 {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing %s: %w", name, err)
	}
	// Until it has been waited for, a killed process can still be signalled; after that its port is free.
	err = wait.PollUntilContextTimeout(context.Background(), 5*time.Millisecond, stopTimeout, true,
		func(context.Context) (bool, error) { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH), nil })
	if err != nil {
		return fmt.Errorf("killed %s is still there after %v: %w", name, stopTimeout, err)
	}
	return e.guardian.Unwatch(name)
}

// StartAPIServer starts the stopped API server again, under the same address, and returns when it answers. It does nothing
// while the API server runs.
func (e *Env) StartAPIServer() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if pid, err := e.guardian.PID(apiServerName); err != nil || pid != 0 {
		return err
	}
	if err := e.environment.ControlPlane.APIServer.Start(); err != nil {
		return fmt.Errorf("starting the API server again: %w; its log ends:\n%s", err, e.logTail(apiServerName))
	}
	return nil
}

// RestartAPIServer stops the API server and starts it again.
func (e *Env) RestartAPIServer() error {
	if err := e.StopAPIServer(); err != nil {
		return err
	}
	return e.StartAPIServer()
}

// Stop ends API server and etcd and removes everything. It is the last call on an Env.
func (e *Env) Stop() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.kill(apiServerName), e.kill(etcdName), e.guardian.Release())
}
