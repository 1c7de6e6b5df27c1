package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
	"github.com/pgflow-operator/pgflow-operator/hack/oldtick"
)

// size is how much is measured.
type size struct {
	Functions int
	// Stops is how many of the functions lose their worker one after the other, Pause the mean time between two.
	Stops int
	Pause time.Duration
	// Debounce of the registrations.
	Debounce time.Duration
	// Hang is how long the boots hang when all workers are lost.
	Hang time.Duration
}

// MarshalJSON writes times in milliseconds.
func (n size) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"functions":  n.Functions,
		"stops":      n.Stops,
		"pauseMs":    millis(n.Pause),
		"debounceMs": millis(n.Debounce),
		"hangMs":     millis(n.Hang),
	})
}

// fullSize is what the command measures. The debounce is pgflow's default.
var fullSize = size{
	Functions: 1000,
	Stops:     100,
	Pause:     150 * time.Millisecond,
	Debounce:  6 * time.Second,
	Hang:      30 * time.Second,
}

// oldTickInterval is pg_cron's shortest.
const oldTickInterval = time.Second

// sayer tells a person how far the run has come.
type sayer func(format string, args ...any)

// measure starts all servers, measures both sides and ends everything that it started.
func measure(ctx context.Context, n size, say sayer) (measured report, err error) {
	say("starting PostgreSQL, kube-apiserver and etcd, building the operator and the stand-in")
	s, err := startServers(ctx)
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()

	measured.Size = n
	if measured.Machine, err = describeMachine(ctx, s); err != nil {
		return report{}, err
	}
	if measured.Operator, err = measureOperator(ctx, s, n, say); err != nil {
		return report{}, fmt.Errorf("the operator: %w", err)
	}
	if measured.OldTick, err = measureOldTick(ctx, s, n, say); err != nil {
		return report{}, fmt.Errorf("the old tick: %w", err)
	}
	say("ending what was started")
	return measured, nil
}

func measureOperator(ctx context.Context, s *servers, n size, say sayer) (f figures, err error) {
	say("operator: %d functions get an object and a worker each", n.Functions)
	scene, err := newScene(ctx, s, "operator", edgeruntime.Participating, n)
	if err != nil {
		return figures{}, err
	}
	defer func() { err = errors.Join(err, scene.close()) }()
	o, err := startOperator(ctx, s, scene)
	if err != nil {
		return figures{}, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; the operator's log ends:\n%s", err, o.logTail())
		}
		err = errors.Join(err, o.end())
	}()
	if err := scene.settle(ctx); err != nil {
		return figures{}, err
	}
	if err := o.allReady(ctx); err != nil {
		return figures{}, err
	}
	return scene.measure(ctx, "operator", say)
}

func measureOldTick(ctx context.Context, s *servers, n size, say sayer) (f figures, err error) {
	say("old tick: %d functions get a worker each", n.Functions)
	scene, err := newScene(ctx, s, "oldtick", edgeruntime.Legacy015, n)
	if err != nil {
		return figures{}, err
	}
	defer func() { err = errors.Join(err, scene.close()) }()

	ticker := oldtick.New(oldtick.Config{
		Database:     scene.pool,
		FunctionsURL: scene.runtime.Addresses.FunctionsURL(),
		Key:          scene.key,
	})
	ticking, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker.Run(ticking, oldTickInterval)
	}()
	defer func() {
		stop()
		<-ended
	}()
	if err := scene.settle(ctx); err != nil {
		return figures{}, err
	}
	return scene.measure(ctx, "old tick", say)
}
