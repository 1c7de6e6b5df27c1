package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pgflow-operator/pgflow-operator/hack/edgeruntime"
)

// The functions that are shown, and how long their runtimes take to boot.
const (
	// hello is the sample in the operator's own Supabase, elsewhere the one in another; there its function has another
	// name.
	hello             = "hello-worker"
	elsewhere         = "hello-elsewhere"
	elsewhereFunction = "hello_worker"
	helloBoot         = 2 * time.Second

	// slowFunction boots longer than its debounce, which slow-boot.yaml has, too.
	slowFunction     = "slow-boot"
	slowManifest     = "hack/demo/slow-boot.yaml"
	slowBootTime     = 5 * time.Second
	slowBootDebounce = 3 * time.Second

	// oldInterval is pg_cron's shortest.
	oldInterval = time.Second
)

// boots returns a function that takes part in the handshake, with the wall clock of its runtimes; 0: no end.
func boots(boot, wallClock time.Duration) *edgeruntime.FunctionConfig {
	config := edgeruntime.DefaultFunction()
	config.Boot, config.WallClock = edgeruntime.Millis(boot), edgeruntime.Millis(wallClock)
	config.Heartbeat = edgeruntime.Millis(time.Second)
	return &config
}

// password returns the database's.
func (s *supabase) password() (string, error) {
	parsed, err := url.Parse(s.databaseURL)
	if err != nil {
		return "", fmt.Errorf("the database's URL: %w", err)
	}
	password, _ := parsed.User.Password()
	return password, nil
}

// editedSamples puts the values of this machine where a comment in config/samples says that they have to be edited. The
// samples themselves stay as they are.
const editedSamples = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- %s
patches:
- target: {kind: Secret, name: hello-database}
  patch: '[{"op": "replace", "path": "/stringData/url", "value": %q}]'
- target: {kind: Secret, name: hello-auth}
  patch: '[{"op": "replace", "path": "/stringData/key", "value": %q}]'
- target: {kind: WorkerFunction, name: hello-elsewhere}
  patch: '[{"op": "replace", "path": "/spec/endpoint/url", "value": %q}]'
`

// editSamples returns a directory for kubectl apply -k.
func (w *world) editSamples() (string, error) {
	dir := w.file("samples")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("editing the samples: %w", err)
	}
	// kustomize takes no absolute path, and resolves links in its own.
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("editing the samples: %w", err)
	}
	root, err := filepath.EvalSymlinks(w.root)
	if err != nil {
		return "", fmt.Errorf("editing the samples: %w", err)
	}
	samples, err := filepath.Rel(real, filepath.Join(root, "config", "samples"))
	if err != nil {
		return "", fmt.Errorf("editing the samples: %w", err)
	}
	return dir, w.write(filepath.Join("samples", "kustomization.yaml"), fmt.Sprintf(editedSamples,
		samples, w.other.databaseURL, w.other.key, w.other.runtime.Addresses.FunctionsURL()))
}
