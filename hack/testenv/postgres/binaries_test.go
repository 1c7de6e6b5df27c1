package postgres

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNewestVersionIsNumeric(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for version, programs := range map[string][]string{
		"9": {"initdb", "postgres"}, "15": {"initdb", "postgres"}, // 15 is newer than 9
		"17":  {"initdb"},             // only the client package
		"old": {"initdb", "postgres"}, // no version
	} {
		bin := filepath.Join(root, version, "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range programs {
			if err := os.WriteFile(filepath.Join(bin, program), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := newestVersion(root), filepath.Join(root, "15", "bin"); got != want {
		t.Errorf("newestVersion = %q, want %q", got, want)
	}
	if got := newestVersion(filepath.Join(root, "absent")); got != "" {
		t.Errorf("newestVersion of nothing = %q, want none", got)
	}
}
