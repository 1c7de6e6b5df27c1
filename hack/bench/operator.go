package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

const (
	namespace      = "supabase"
	operatorSecret = "functions"
	operatorName   = "manager"

	operatorEnd  = 15 * time.Second
	readyTimeout = 60 * time.Second
	readyPoll    = time.Second
	logTailBytes = 4096
	// creators is how many objects are created at the same time.
	creators = 8
)

// operator is the operator's process and what it was given.
type operator struct {
	servers *servers
	admin   client.Client
	command *exec.Cmd
	ended   chan struct{}
}

// startOperator makes an object for each function and starts the operator, with the permissions of config/rbac. The
// caller calls end.
func startOperator(ctx context.Context, s *servers, c *scene) (*operator, error) {
	config, err := s.kube.OperatorConfig(ctx, namespace)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	if err := s.kube.WriteKubeconfig(config, kubeconfig); err != nil {
		return nil, err
	}
	o := &operator{servers: s, ended: make(chan struct{})}
	if o.admin, err = newAdmin(s.kube.Config); err != nil {
		return nil, err
	}
	if err := o.createObjects(ctx, c); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(o.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the operator's log: %w", err)
	}
	defer func() { _ = log.Close() }()                // the process has its own
	o.command = exec.Command(s.program(operatorName), //nolint:noctx,gosec // ended by end; built here
		"--namespace="+namespace,
		"--functions-url="+c.runtime.Addresses.FunctionsURL(),
		"--database-secret="+operatorSecret+"/url",
		"--auth-secret="+operatorSecret+"/key",
		// No ports, so that there is none to be taken by somebody else.
		"--metrics-bind-address=0",
		"--health-probe-bind-address=0")
	o.command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "KUBECONFIG=" + kubeconfig}
	o.command.Stdout, o.command.Stderr = log, log
	o.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is ours to handle
	if err := o.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the operator: %w", err)
	}
	go func() {
		_ = o.command.Wait() // how it ended is in its log
		close(o.ended)
	}()
	if err := s.guardian.Watch(operatorName, o.command.Process.Pid); err != nil {
		return nil, errors.Join(err, o.end())
	}
	return o, nil
}

func newAdmin(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), workersv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // a thousand objects at the default of five a second would take minutes
	return client.New(config, client.Options{Scheme: scheme})
}

// createObjects makes the operator's Secret and the objects, which name their functions and nothing else.
func (o *operator) createObjects(ctx context.Context, c *scene) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: operatorSecret},
		StringData: map[string]string{"url": c.databaseURL, "key": c.key},
	}
	if err := o.admin.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating the Secret: %w", err)
	}
	names := make(chan string)
	errs := make([]error, creators)
	var all sync.WaitGroup
	for i := range creators {
		all.Go(func() {
			for name := range names {
				errs[i] = errors.Join(errs[i], o.admin.Create(ctx, &workersv1alpha1.WorkerFunction{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				}))
			}
		})
	}
	for _, name := range c.names {
		names <- name
	}
	close(names)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("creating WorkerFunctions: %w", err)
	}
	return nil
}

// allReady waits until every object says that its worker is ready, so that no status is left to be written.
func (o *operator) allReady(ctx context.Context) error {
	return await(ctx, readyTimeout, readyPoll, func(ctx context.Context) (string, error) {
		select {
		case <-o.ended:
			return "", errors.New("the operator ended")
		default:
		}
		var list workersv1alpha1.WorkerFunctionList
		if err := o.admin.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		unready := 0
		for _, object := range list.Items {
			if !meta.IsStatusConditionTrue(object.Status.Conditions, workersv1alpha1.ConditionReady) || object.Status.Worker == nil {
				unready++
			}
		}
		if unready == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d of %d objects to be Ready", unready, len(list.Items)), nil
	})
}

// end ends the operator; one that does not end in time is killed, which is an error.
func (o *operator) end() error {
	_ = o.command.Process.Signal(syscall.SIGTERM) // it may have ended
	deadline := time.NewTimer(operatorEnd)
	defer deadline.Stop()
	var err error
	select {
	case <-o.ended:
	case <-deadline.C:
		_ = o.command.Process.Kill()
		<-o.ended
		err = fmt.Errorf("the operator had not ended %v after SIGTERM and was killed", operatorEnd)
	}
	return errors.Join(err, o.servers.guardian.Unwatch(operatorName))
}

func (o *operator) logFile() string { return filepath.Join(o.servers.dir, "manager.log") }

// logTail returns the end of the operator's log, for errors.
func (o *operator) logTail() string {
	log, err := os.ReadFile(o.logFile())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(log[max(0, len(log)-logTailBytes):]))
}
