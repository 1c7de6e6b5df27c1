// Package guardian cleans up behind a process that dies without doing so: after a panic, SIGKILL or Ctrl-C.
//
// It is a child process in a process group of its own that waits for the end of a pipe, whose other end only the
// guarded process holds. It owns one directory. Processes to be ended are named by files in it that end in ".pid" and
// hold a process id; whoever starts such a process writes the file, and removes it once the process has ended.
package guardian

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// script waits until its standard input ends, ends the processes named in the directory ($1) and removes that.
// SIGQUIT ends PostgreSQL and its children at once (a killed server would leave shared memory), and Go programs as well.
const script = `
trap '' HUP INT QUIT TERM
cat >/dev/null
for file in "$1"/*.pid; do
	[ -f "$file" ] || continue
	read -r process <"$file"
	kill -QUIT "$process" || continue
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		kill -0 "$process" || break
		sleep 0.2
	done
	kill -KILL "$process"
done
# A child that still creates files makes rm fail: once more after it has ended.
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
`

// Guardian watches over a directory for as long as this process lives.
type Guardian struct {
	dir     string
	command *exec.Cmd
	pipe    io.Closer
}

// Start begins to watch over dir, which must exist.
func Start(dir string) (*Guardian, error) {
	// Not bound to a context: it has to outlive whatever ends the caller.
	command := exec.Command("/bin/sh", "-c", script, "pgflow-guardian", dir) //nolint:noctx,gosec // see above; the script is a constant
	command.Dir = "/"
	// A group of its own: a signal to the caller's group does not end it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the guardian of %s: %w", dir, err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting the guardian of %s: %w", dir, err)
	}
	return &Guardian{dir: dir, command: command, pipe: pipe}, nil
}

// PIDFile returns the file that names the process called name, for those who write it themselves.
func (g *Guardian) PIDFile(name string) string {
	return filepath.Join(g.dir, name+".pid")
}

// Watch has the process ended should the caller die; Unwatch takes that back.
func (g *Guardian) Watch(name string, pid int) error {
	if err := os.WriteFile(g.PIDFile(name), []byte(strconv.Itoa(pid)+"\n"), 0o600); err != nil {
		return fmt.Errorf("telling the guardian about process %d: %w", pid, err)
	}
	return nil
}

// PID returns the id of the watched process called name; 0 where none is.
func (g *Guardian) PID(name string) (int, error) {
	content, err := os.ReadFile(g.PIDFile(name))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the process id of %s: %w", name, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("reading the process id of %s: %w", name, err)
	}
	return pid, nil
}

// Unwatch forgets the process called name, which has ended. It may be called for one that is not watched.
func (g *Guardian) Unwatch(name string) error {
	if err := os.Remove(g.PIDFile(name)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("telling the guardian about the end of %s: %w", name, err)
	}
	return nil
}

// Release has the guardian do its work now and waits for its end: then the directory is gone. It is the last call.
func (g *Guardian) Release() error {
	if err := g.pipe.Close(); err != nil {
		return fmt.Errorf("releasing the guardian of %s: %w", g.dir, err)
	}
	if err := g.command.Wait(); err != nil {
		return fmt.Errorf("guardian of %s: %w", g.dir, err)
	}
	return nil
}
