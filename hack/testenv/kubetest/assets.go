package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const assetsScript = "hack/testenv/kube-assets.sh"

// RepositoryRoot returns the directory of this repository, found upwards from the working directory.
func RepositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, assetsScript)); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("finding the repository: neither %s nor a directory above has %s", start, assetsScript)
		}
	}
}

// Assets returns the directory that holds etcd, kube-apiserver and kubectl. Where they have to be built first, that takes
// minutes and its progress goes to standard error.
func Assets(ctx context.Context) (string, error) {
	root, err := RepositoryRoot()
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, filepath.Join(root, assetsScript)) //nolint:gosec // a script of this repository
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", assetsScript, err)
	}
	dir := strings.TrimSpace(string(output))
	if dir == "" {
		return "", errors.New(assetsScript + " printed no directory")
	}
	return dir, nil
}
