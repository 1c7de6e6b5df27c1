package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"go.uber.org/zap/zapcore"

	"github.com/pgflow-operator/pgflow-operator/controllers"
	"github.com/pgflow-operator/pgflow-operator/controllers/credentials"
)

// run runs the operator until ctx ends.
func run(ctx context.Context, o options, set credentials.Set) error {
	ctrl.SetLogger(zap.New(zap.UseDevMode(o.logFormat == "console"), zap.Level(zapcore.Level(-o.logLevel)), //nolint:gosec // G115: a small number
		zap.StacktraceLevel(zapcore.PanicLevel)))

	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("no Kubernetes API server: %w", err)
	}
	metrics := metricsserver.Options{BindAddress: o.metricsAddress}
	if !o.metricsInsecure {
		metrics.SecureServing = true
		metrics.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	mgr, err := controllers.NewManager(config, ctrl.Options{
		Metrics:                       metrics,
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "pgflow-operator.workers.pgflow.dev",
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends when this returns
		// Longer than usual: a leader that cannot reach the API server for a minute goes on keeping workers started, which
		// needs only the database. Safety does not depend on leading.
		LeaseDuration: &o.leaseDuration,
		RenewDeadline: &o.renewDeadline,
		RetryPeriod:   &o.retryPeriod,
		// Until its custom resource definition is installed the operator waits, and does not end.
		Controller: ctrlconfig.Controller{CacheSyncTimeout: 24 * time.Hour},
	})
	if err != nil {
		return err
	}
	if err := controllers.Setup(ctx, mgr, controllers.Options{MaxConcurrentDeliveries: o.maxConcurrentDeliveries}, set); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	mentionUnreachable(config)
	return mgr.Start(ctx)
}

// askTimeout bounds mentionUnreachable.
const askTimeout = 3 * time.Second

// mentionUnreachable says so if the API server does not answer: the clients then wait for it without a word.
func mentionUnreachable(config *rest.Config) {
	config = rest.CopyConfig(config)
	config.Timeout = askTimeout
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err == nil {
		_, err = client.ServerVersion()
	}
	if err != nil {
		ctrl.Log.WithName("setup").Info("The API server does not answer; waiting for it", "reason", err.Error())
	}
}
