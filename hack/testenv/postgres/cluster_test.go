package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/postgres"
)

// abandonVariable makes the test binary start a cluster, print its URL and directory, and never stop it.
const abandonVariable = "PGFLOW_TEST_ABANDON_CLUSTER"

func TestMain(m *testing.M) {
	if os.Getenv(abandonVariable) != "" {
		abandon()
	}
	goleak.VerifyTestMain(m)
}

func abandon() {
	cluster, err := postgres.Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cluster.URL("postgres"))
	select {}
}

func TestServerComesAndGoes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster, err := postgres.Start(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cluster.Stop()).To(Succeed()) })
	database, err := cluster.CreateDatabase(t.Context(), "kept")
	g.Expect(err).NotTo(HaveOccurred())
	execute(t, database, "CREATE TABLE marks (id int)")

	g.Expect(cluster.Restart(t.Context())).To(Succeed())
	execute(t, database, "INSERT INTO marks VALUES (1)")

	g.Expect(cluster.CrashServer()).To(Succeed())
	_, err = pgx.Connect(t.Context(), database)
	g.Expect(err).To(HaveOccurred(), "nobody answers while the server is down")
	g.Expect(cluster.StartServer(t.Context())).To(Succeed())
	g.Expect(cluster.StartServer(t.Context())).To(Succeed(), "it runs already")
	execute(t, database, "DO $$ BEGIN ASSERT (SELECT count(*) FROM marks) = 1, 'a commit was lost'; END $$")

	g.Expect(cluster.DropDatabase(t.Context(), "kept")).To(Succeed())
	g.Expect(cluster.DropDatabase(t.Context(), "kept")).To(Succeed(), "it is gone already")
}

func TestWrongPasswordIsRefused(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cluster, err := postgres.Start(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cluster.Stop()).To(Succeed()) })
	address, err := url.Parse(cluster.URL("postgres"))
	g.Expect(err).NotTo(HaveOccurred())
	address.User = url.UserPassword("postgres", "wrong")

	_, err = pgx.Connect(t.Context(), address.String())

	var refusal *pgconn.PgError
	g.Expect(errors.As(err, &refusal)).To(BeTrue(), "%v", err)
	g.Expect(refusal.Code).To(Equal("28P01"))
}

func TestNothingStaysBehindAKilledCaller(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	temporary := t.TempDir()
	// The server's user must get through to its directory.
	g.Expect(os.Chmod(temporary, 0o711)).To(Succeed())
	g.Expect(os.Chmod(filepath.Dir(temporary), 0o711)).To(Succeed())
	program, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	caller := exec.CommandContext(t.Context(), program)
	caller.Env = append(os.Environ(), abandonVariable+"=yes", "TMPDIR="+temporary)
	caller.Stderr = os.Stderr
	output, err := caller.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(caller.Start()).To(Succeed())
	line, err := bufio.NewReader(output).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred())
	database := line[:len(line)-1]
	execute(t, database, "SELECT 1")

	g.Expect(caller.Process.Kill()).To(Succeed())
	g.Expect(caller.Wait()).NotTo(Succeed())

	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(temporary) }).
		WithTimeout(15 * time.Second).WithPolling(50 * time.Millisecond).Should(BeEmpty())
	// Not a login, which fails without files even where the server lives on.
	address, err := url.Parse(database)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", address.Host)
	g.Expect(err).To(MatchError(syscall.ECONNREFUSED))
}

func execute(t *testing.T, database, statement string) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatalf("connecting to %s: %v", database, err)
	}
	_, err = connection.Exec(t.Context(), statement)
	if err = errors.Join(err, connection.Close(t.Context())); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
