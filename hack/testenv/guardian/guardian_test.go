package guardian_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/guardian"
)

func TestReleaseEndsWatchedProcessesOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "guarded")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	guard, err := guardian.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	watched, forgotten := startSleep(t), startSleep(t)
	for name, process := range map[string]*exec.Cmd{"watched": watched, "forgotten": forgotten} {
		if err := guard.Watch(name, process.Process.Pid); err != nil {
			t.Fatal(err)
		}
	}
	if pid, err := guard.PID("watched"); err != nil || pid != watched.Process.Pid {
		t.Errorf("PID = %d, %v; want %d", pid, err, watched.Process.Pid)
	}
	for range 2 { // the second time it is not watched
		if err := guard.Unwatch("forgotten"); err != nil {
			t.Fatal(err)
		}
	}
	if pid, err := guard.PID("forgotten"); err != nil || pid != 0 {
		t.Errorf("PID of what is not watched = %d, %v; want 0", pid, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- watched.Wait() }()

	if err := guard.Release(); err != nil {
		t.Fatal(err)
	}

	select {
	case err := <-ended:
		if err == nil {
			t.Error("the watched process ended by itself")
		}
	case <-time.After(10 * time.Second):
		t.Error("the watched process lives on")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	if err := forgotten.Process.Kill(); err != nil {
		t.Errorf("the process that is not watched any more was ended: %v", err)
	}
	_ = forgotten.Wait() // killed above
}

func startSleep(t *testing.T) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sleep", "60")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command
}
