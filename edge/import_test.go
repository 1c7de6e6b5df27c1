package edge_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// trying imports the module and says whether it is there. It needs neither a database nor an environment.
const trying = `import { serveWorker } from "%s";
if (typeof serveWorker !== "function") throw new Error("no serveWorker");
`

// TestImports: the module is imported by file in every other test; here by URL, and as the npm package that deno pack
// makes of it.
func TestImports(t *testing.T) {
	t.Parallel()
	t.Run("by URL", func(t *testing.T) {
		t.Parallel()
		files := http.FileServer(http.Dir("."))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain") // as hosts of source code do
			files.ServeHTTP(w, r)
		}))
		defer server.Close()
		app := newApp(t, server.URL+"/handshake.ts")
		app.deno("run", "--check", "--no-lock", "--allow-import", "--reload="+server.URL, "app.ts")
	})
	t.Run("as an npm package", func(t *testing.T) {
		t.Parallel()
		const name = "@pgflow-operator/handshake"
		app := newApp(t, name)
		tarball := filepath.Join(app.dir, "handshake.tgz")
		if output, err := denoCommand(t, nil, "pack", "--allow-dirty", "--output", tarball).CombinedOutput(); err != nil {
			t.Fatalf("deno pack: %v\n%s", err, output)
		}
		app.write("package.json", `{"type": "module", "dependencies": {"postgres": "3.4.9"}}`)
		app.deno("install", "--node-modules-dir=auto")
		app.unpack(tarball, "node_modules/"+name)
		app.deno("run", "--check", "--node-modules-dir=manual", "app.ts")
	})
}

// app is somebody's program, in a directory of its own.
type app struct {
	t   *testing.T
	dir string
}

func newApp(t *testing.T, specifier string) *app {
	a := &app{t: t, dir: t.TempDir()}
	a.write("app.ts", strings.ReplaceAll(trying, "%s", specifier))
	return a
}

func (a *app) deno(args ...string) {
	a.t.Helper()
	command := denoCommand(a.t, nil, args...)
	command.Dir = a.dir
	if output, err := command.CombinedOutput(); err != nil {
		a.t.Fatalf("deno %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}

func (a *app) write(name, text string) {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// unpack unpacks an npm package, whose files are all below package/.
func (a *app) unpack(tarball, into string) {
	a.t.Helper()
	file, err := os.Open(tarball)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	uncompressed, err := gzip.NewReader(file)
	if err != nil {
		a.t.Fatal(err)
	}
	archive := tar.NewReader(uncompressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			a.t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			a.t.Fatal(err)
		}
		name := strings.TrimPrefix(header.Name, "package/")
		if strings.Contains(name, "fixtures") || strings.Contains(name, "_test") {
			a.t.Errorf("the package contains %s", name)
		}
		a.write(filepath.Join(into, name), string(text))
	}
}
