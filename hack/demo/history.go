package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workersv1alpha1 "github.com/pgflow-operator/pgflow-operator/api/v1alpha1"
)

// history collects every version of every WorkerFunction that the API server sends out, as anybody who watches sees
// them. It is safe for concurrent use.
type history struct {
	mu       sync.Mutex
	versions []workersv1alpha1.WorkerFunction
	err      error // the watch broke off

	cancel context.CancelFunc
	ended  chan struct{}
}

// watchHistory begins to collect; end ends it.
func watchHistory(ctx context.Context, config *rest.Config) (*history, error) {
	scheme := runtime.NewScheme()
	if err := workersv1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	watcher, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	events, err := watcher.Watch(ctx, &workersv1alpha1.WorkerFunctionList{}, client.InNamespace(namespace))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching: %w", err)
	}
	h := &history{cancel: cancel, ended: make(chan struct{})}
	go h.collect(ctx, events)
	return h, nil
}

func (h *history) collect(ctx context.Context, events watch.Interface) {
	defer close(h.ended)
	defer events.Stop()
	for event := range events.ResultChan() {
		if object, ok := event.Object.(*workersv1alpha1.WorkerFunction); ok && event.Type != watch.Deleted {
			h.mu.Lock()
			h.versions = append(h.versions, *object)
			h.mu.Unlock()
		}
	}
	if ctx.Err() == nil {
		h.mu.Lock()
		h.err = errors.New("the API server ended the watch, so that not every version was seen")
		h.mu.Unlock()
	}
}

func (h *history) end() {
	h.cancel()
	<-h.ended
}

// of returns the versions of one object, oldest first, from the given number of versions of it on.
func (h *history) of(name string, from int) ([]workersv1alpha1.WorkerFunction, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []workersv1alpha1.WorkerFunction
	for _, version := range h.versions {
		if version.Name == name {
			found = append(found, version)
		}
	}
	return found[min(from, len(found)):], h.err
}

// newest returns the newest version of an object; the zero value before the first.
func (h *history) newest(name string) (workersv1alpha1.WorkerFunction, error) {
	versions, err := h.of(name, 0)
	if len(versions) == 0 {
		return workersv1alpha1.WorkerFunction{}, err
	}
	return versions[len(versions)-1], err
}

// condition returns an object's condition; its zero value, whose status is neither True nor False, where there is none.
func condition(object workersv1alpha1.WorkerFunction, conditionType string) metav1.Condition {
	if found := meta.FindStatusCondition(object.Status.Conditions, conditionType); found != nil {
		return *found
	}
	return metav1.Condition{}
}

func isReady(object workersv1alpha1.WorkerFunction) bool {
	return condition(object, workersv1alpha1.ConditionReady).Status == metav1.ConditionTrue && object.Status.Worker != nil
}

func isPending(object workersv1alpha1.WorkerFunction) bool {
	return condition(object, workersv1alpha1.ConditionInvocationPending).Status == metav1.ConditionTrue &&
		object.Status.Phase == workersv1alpha1.PhasePending && object.Status.Invocation != nil
}

// reached waits until some version of an object, from the given number on, satisfies the test.
func (w *world) reached(ctx context.Context, name string, from int, what string, timeout time.Duration, test func(workersv1alpha1.WorkerFunction) bool) error {
	return w.await(ctx, name+" "+what, timeout, func(context.Context) (bool, error) {
		versions, err := w.history.of(name, from)
		return slices.ContainsFunc(versions, test), err
	})
}
