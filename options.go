package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgflow-operator/pgflow-operator/controllers/credentials"
	"github.com/pgflow-operator/pgflow-operator/controllers/delivery"
)

// options are the operator's flags. Only malformed ones end the process; what they name may be missing, and appear
// later.
type options struct {
	functionsURL      string
	databaseSecret    string
	authSecret        string
	databaseURL       string
	databaseHost      string
	databasePort      uint16
	databaseUser      string
	databaseName      string
	allowedNamespaces []string
	namespace         string

	leaderElect             bool
	leaseDuration           time.Duration
	renewDeadline           time.Duration
	retryPeriod             time.Duration
	metricsAddress          string
	metricsInsecure         bool
	probeAddress            string
	logFormat               string
	logLevel                int
	maxConcurrentDeliveries int
}

func (o *options) register(f *pflag.FlagSet) {
	f.StringVar(&o.functionsURL, "functions-url", "",
		"where edge functions are reached, for example http://supabase-kong:8000/functions/v1")
	f.StringVar(&o.databaseSecret, "database-secret", "",
		"NAME/KEY of the Secret in the operator's namespace that holds the database URL, or only the password if --database-host is given")
	f.StringVar(&o.authSecret, "auth-secret", "",
		"NAME/KEY of the Secret in the operator's namespace that holds the key sent to edge functions")
	f.StringVar(&o.databaseURL, "database-url", "",
		"database URL for development, instead of --database-secret (environment DATABASE_URL)")
	f.StringVar(&o.databaseHost, "database-host", "", "database host, where --database-secret holds only a password")
	f.Uint16Var(&o.databasePort, "database-port", 5432, "database port, with --database-host")
	f.StringVar(&o.databaseUser, "database-user", "postgres", "database user, with --database-host")
	f.StringVar(&o.databaseName, "database-name", "postgres", "database name, with --database-host")
	f.StringSliceVar(&o.allowedNamespaces, "allowed-namespaces", nil,
		"namespaces whose WorkerFunctions may use the operator's own database, endpoint and key; '*' for all (default: the operator's namespace)")
	f.StringVar(&o.namespace, "namespace", "", "the operator's own namespace (environment POD_NAMESPACE)")
	f.BoolVar(&o.leaderElect, "leader-elect", false, "let only one of several replicas act; safety does not need it")
	f.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 90*time.Second,
		"how long after its last renewal a leader that died without a word is succeeded")
	f.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 75*time.Second,
		"how long the leader goes on without the API server before it ends; shorter than the lease")
	f.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 5*time.Second, "how often leading is renewed or tried for")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "where metrics are served; 0 turns them off")
	f.BoolVar(&o.metricsInsecure, "metrics-insecure", false, "serve metrics over HTTP and to everybody, for development")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served; 0 turns them off")
	f.StringVar(&o.logFormat, "log-format", "json", "json or console")
	f.IntVar(&o.logLevel, "log-level", 0, "0: what a person should know; 1: every start; up to 5: more")
	f.IntVar(&o.maxConcurrentDeliveries, "max-concurrent-deliveries", delivery.DefaultMaxConcurrent,
		"how many requests to edge functions are under way at most")
}

// set checks the flags and returns the operator's own database, endpoint and key. An error is a malformed flag.
func (o *options) set() (credentials.Set, error) {
	if o.databaseURL == "" {
		o.databaseURL = os.Getenv("DATABASE_URL")
	}
	if o.namespace == "" {
		o.namespace = os.Getenv("POD_NAMESPACE")
	}
	set := credentials.Set{Namespace: o.namespace, AllowedNamespaces: o.allowedNamespaces, DatabaseURL: o.databaseURL}
	var errs []error
	set.Database = secretKey(&errs, "--database-secret", o.databaseSecret)
	set.Auth = secretKey(&errs, "--auth-secret", o.authSecret)
	if (set.Database != nil || set.Auth != nil) && o.namespace == "" {
		errs = append(errs, errors.New("--database-secret and --auth-secret need --namespace (or POD_NAMESPACE)"))
	}
	if set.Database != nil && o.databaseURL != "" {
		errs = append(errs, errors.New("--database-secret and --database-url (or DATABASE_URL) exclude each other"))
	}
	if o.databaseHost != "" {
		set.DatabaseParts = &credentials.DatabaseParts{Host: o.databaseHost, Port: o.databasePort, User: o.databaseUser, Name: o.databaseName}
		if set.Database == nil {
			errs = append(errs, errors.New("--database-host needs --database-secret, which holds the password"))
		}
	}
	if o.functionsURL != "" {
		endpoint, err := url.Parse(o.functionsURL)
		switch {
		case err != nil || endpoint.Host == "" || !slices.Contains([]string{"http", "https"}, endpoint.Scheme):
			errs = append(errs, errors.New("--functions-url must be an http:// or https:// URL with a host"))
		case endpoint.User != nil || endpoint.RawQuery != "" || endpoint.Fragment != "":
			errs = append(errs, errors.New("--functions-url must have no user, query or fragment"))
		default:
			set.FunctionsURL = endpoint
		}
	}
	if o.logFormat != "json" && o.logFormat != "console" {
		errs = append(errs, errors.New("--log-format must be json or console"))
	}
	if o.logLevel < 0 || o.logLevel > 5 { // from 8 on the client library writes whole Secrets into the log
		errs = append(errs, errors.New("--log-level must be from 0 to 5"))
	}
	if o.retryPeriod <= 0 || o.renewDeadline <= o.retryPeriod*6/5 || o.leaseDuration <= o.renewDeadline {
		errs = append(errs, errors.New("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, and that longer than 1.2 x --leader-elect-retry-period"))
	}
	if o.maxConcurrentDeliveries < 1 {
		errs = append(errs, errors.New("--max-concurrent-deliveries must be at least 1"))
	}
	return set, errors.Join(errs...)
}

// secretKey parses NAME/KEY; nil when empty.
func secretKey(errs *[]error, flag, value string) *credentials.SecretKey {
	if value == "" {
		return nil
	}
	name, key, ok := strings.Cut(value, "/")
	if !ok || name == "" || key == "" || strings.Contains(key, "/") {
		*errs = append(*errs, fmt.Errorf("%s must be NAME/KEY", flag))
		return nil
	}
	return &credentials.SecretKey{Name: name, Key: key}
}
