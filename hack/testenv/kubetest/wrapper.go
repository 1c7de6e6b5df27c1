package kubetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// logTailBytes is how much of a program's log an error carries.
const logTailBytes = 2048

// wrapperScript runs a program so that the guardian knows its process id and its log is kept. envtest asks for --help and
// reads that itself.
const wrapperScript = `#!/bin/sh
if [ "$1" = --help ]; then exec %[1]s "$@"; fi
echo $$ >%[2]s
exec %[1]s "$@" >>%[3]s 2>&1
`

// wrap writes the script that envtest runs in place of the program and returns its path.
func (e *Env) wrap(name string) (string, error) {
	path := filepath.Join(e.dir, name+".sh")
	script := fmt.Sprintf(wrapperScript,
		quote(filepath.Join(e.AssetsDir, name)), quote(e.guardian.PIDFile(name)), quote(e.logFile(name)))
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		return "", fmt.Errorf("preparing %s: %w", name, err)
	}
	return path, nil
}

// quote makes the shell read s as one word.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (e *Env) logFile(name string) string { return filepath.Join(e.dir, name+".log") }

// logTail returns the end of a program's log, for errors.
func (e *Env) logTail(name string) string {
	log, err := os.ReadFile(e.logFile(name))
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(log[max(0, len(log)-logTailBytes):]))
}
