package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// InstallLine is the command that a person runs where FindBinaries finds nothing.
const InstallLine = "sudo apt-get install postgresql"

// debianRoot is where Debian's packages put one directory per major version.
const debianRoot = "/usr/lib/postgresql"

// ErrNoBinaries says that this machine has no PostgreSQL server programs, and how to get them.
var ErrNoBinaries = errors.New("no PostgreSQL server programs (initdb, postgres) found; install them with: " + InstallLine)

// FindBinaries returns the directory of initdb and postgres: that of the newest major version of Debian's
// packages, else the one in PATH. The error is ErrNoBinaries where there is neither.
func FindBinaries() (string, error) {
	if dir := newestVersion(debianRoot); dir != "" {
		return dir, nil
	}
	postgres, err := exec.LookPath("postgres")
	if err != nil {
		return "", ErrNoBinaries
	}
	// initdb finds postgres beside itself, so a link to one of them is followed to where both are.
	postgres, err = filepath.EvalSymlinks(postgres)
	if err != nil {
		return "", fmt.Errorf("following %s: %w", postgres, err)
	}
	dir := filepath.Dir(postgres)
	if !hasServer(dir) {
		return "", ErrNoBinaries
	}
	return dir, nil
}

// newestVersion returns root/<highest number>/bin among those that hold a server, or "".
func newestVersion(root string) string {
	newest, dir := 0, ""
	// Glob fails only on a malformed pattern.
	candidates, _ := filepath.Glob(filepath.Join(root, "*", "bin"))
	for _, candidate := range candidates {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(candidate)))
		if err == nil && version > newest && hasServer(candidate) {
			newest, dir = version, candidate
		}
	}
	return dir
}

func hasServer(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, program)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}
