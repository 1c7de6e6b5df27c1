package faults_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Everything that the operator needs is missing when it starts, and appears one by one. It stays up and is ready for
// probes all the time, says what to do, and recovers by itself.
func TestEverythingIsMissingAtStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{bare: true})
	w.database.refuse()
	o := w.operator()
	f := w.function(t, "patient", spec{})
	stalled := func() string { return f.condition("Stalled") }
	probed := func() {
		t.Helper()
		for _, probe := range []string{"healthz", "readyz"} {
			w.eventually(func() error { return o.probes(probe) }).Should(Succeed())
		}
	}
	w.eventually(stalled).Should(Equal("True SecretMissing"))
	probed()

	// The Secret comes, with another password than the database's; the database comes.
	wrong, err := url.Parse(w.url)
	w.g.Expect(err).NotTo(HaveOccurred())
	password := "wrong-" + rand.Text()
	wrong.User = url.UserPassword(wrong.User.Username(), password)
	w.secret(map[string]string{"url": wrong.String(), "key": w.key})
	w.eventually(stalled).Should(BeEmpty())
	w.eventually(func() string { return f.condition("Ready") }).Should(HavePrefix("Unknown "))
	probed()
	w.database.up()
	w.eventually(stalled).Should(Equal("True DatabaseAuthenticationFailed"))
	probed()

	// The right password; pgflow and the migrations are still missing.
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "operator"},
		StringData: map[string]string{"url": w.url, "key": w.key}}
	w.g.Expect(shared.admin.Update(t.Context(), secret)).To(Succeed())
	w.eventually(stalled).Should(Equal("True SchemaMissing"))
	probed()
	named := func() []string { return o.lines("manager migrate", `"level":"info"`, `"logger":"observer"`) }
	w.eventually(named).Should(HaveLen(1), "one line that names the command")

	// The command does it, and the function is started without anybody touching the operator.
	w.database.freeze() // until the audit can see all that the operator does
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	migrate := exec.CommandContext(ctx, shared.manager, "migrate", "--create-base-tables")
	migrate.Env = []string{"DATABASE_URL=" + w.pool.Config().ConnString()}
	output, err := migrate.CombinedOutput()
	w.g.Expect(err).NotTo(HaveOccurred(), "%s", output)
	w.exec(auditSQL)
	w.database.thaw()
	f.ready()
	w.g.Expect(named()).To(HaveLen(1))
	w.g.Expect(f.sent()).To(HaveLen(1))
	w.g.Expect(o.output()).NotTo(ContainSubstring(password))
}

// The migrations go away under a running operator, and come back.
func TestMigrationsAreUninstalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setting{})
	o := w.operator()
	f := w.function(t, "steady", spec{})
	worker := f.ready()
	w.exec(`ALTER SCHEMA pgflow RENAME TO away`)
	w.eventually(func() string { return f.condition("Stalled") }).Should(Equal("True SchemaMissing"))
	w.g.Expect(o.probes("readyz")).To(Succeed())
	w.exec(`ALTER SCHEMA away RENAME TO pgflow`)
	w.g.Expect(f.ready()).To(Equal(worker))
	w.g.Expect(f.sent()).To(HaveLen(1))
}

// Only malformed flags end the process, at once and with a message that names the flag.
func TestMalformedFlags(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args  []string
		names string
	}{
		{[]string{"--no-such-flag"}, "no-such-flag"},
		{[]string{"--functions-url=supabase-kong:8000"}, "--functions-url"},
		{[]string{"--functions-url=http://user:secret@kong:8000/functions/v1"}, "--functions-url"},
		{[]string{"--database-secret=no-key", "--namespace=n"}, "--database-secret"},
		{[]string{"--auth-secret=a/b/c", "--namespace=n"}, "--auth-secret"},
		{[]string{"--auth-secret=name/key"}, "--namespace"},
		{[]string{"--database-secret=name/key", "--namespace=n", "--database-url=postgres://u:secret@h/d"}, "--database-url"},
		{[]string{"--database-host=db"}, "--database-host"},
		{[]string{"--database-port=65536"}, "--database-port"},
		{[]string{"--leader-elect-renew-deadline=2m"}, "--leader-elect-renew-deadline"},
		{[]string{"--log-format=xml"}, "--log-format"},
		{[]string{"--max-concurrent-deliveries=0"}, "--max-concurrent-deliveries"},
		{[]string{"an-argument"}, "an-argument"},
	} {
		t.Run(strings.Trim(row.args[0], "-"), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			command := exec.CommandContext(ctx, shared.manager, row.args...)
			command.Env = []string{"KUBECONFIG=/nowhere"}
			begun := time.Now()
			output, err := command.CombinedOutput()
			g.Expect(err).To(HaveOccurred())
			g.Expect(command.ProcessState.ExitCode()).To(Equal(1), "after %v: %s", time.Since(begun), output)
			g.Expect(string(output)).To(ContainSubstring(row.names))
			g.Expect(string(output)).NotTo(ContainSubstring("secret@"))
			g.Expect(strings.Count(strings.TrimSpace(string(output)), "\n")).To(Equal(0), "%s", output)
		})
	}
}
