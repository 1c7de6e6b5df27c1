package main

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"

	"github.com/pgflow-operator/pgflow-operator/controllers/credentials"
)

// parse returns the set that flags lead to.
func parse(t *testing.T, args ...string) (credentials.Set, error) {
	t.Helper()
	t.Setenv("DATABASE_URL", "")
	t.Setenv("POD_NAMESPACE", "")
	var o options
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o.register(flags)
	if err := flags.Parse(args); err != nil {
		return credentials.Set{}, err
	}
	return o.set()
}

func TestMalformedFlagsEndTheProcess(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"a Secret without key":        {[]string{"--namespace=n", "--auth-secret=jwt"}, "--auth-secret must be NAME/KEY"},
		"a Secret with a namespace":   {[]string{"--namespace=n", "--database-secret=a/b/c"}, "--database-secret must be NAME/KEY"},
		"a Secret of no namespace":    {[]string{"--auth-secret=jwt/key"}, "need --namespace"},
		"two databases":               {[]string{"--namespace=n", "--database-secret=db/url", "--database-url=postgres://u:p@h/d"}, "exclude each other"},
		"a host without password":     {[]string{"--database-host=db"}, "--database-host needs --database-secret"},
		"a URL without scheme":        {[]string{"--functions-url=kong:8000/functions/v1"}, "--functions-url must be"},
		"a URL with a password":       {[]string{"--functions-url=http://u:p@kong/functions/v1"}, "--functions-url must have no user"},
		"a URL with a query":          {[]string{"--functions-url=http://kong/functions/v1?x"}, "--functions-url must have no user, query"},
		"an unknown log format":       {[]string{"--log-format=xml"}, "--log-format"},
		"a log level that shows keys": {[]string{"--log-level=8"}, "--log-level"},
		"no deliveries":               {[]string{"--max-concurrent-deliveries=0"}, "--max-concurrent-deliveries"},
		"a lease that ends too early": {[]string{"--leader-elect-lease-duration=10s"}, "--leader-elect-lease-duration"},
		"an unknown flag":             {[]string{"--nonsense"}, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, c.args...)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.says)))
		})
	}
}

func TestWhatIsMissingIsNoMalformedFlag(t *testing.T) {
	g := NewWithT(t)
	set, err := parse(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(set).To(Equal(credentials.Set{}))

	set, err = parse(t, "--namespace=supabase", "--functions-url=http://kong:8000/functions/v1", "--auth-secret=jwt/serviceKey",
		"--database-secret=db/password", "--database-host=db", "--allowed-namespaces=a,b")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(set.FunctionsURL.String()).To(Equal("http://kong:8000/functions/v1"))
	g.Expect(set.Auth).To(Equal(&credentials.SecretKey{Name: "jwt", Key: "serviceKey"}))
	g.Expect(set.DatabaseParts).To(Equal(&credentials.DatabaseParts{Host: "db", Port: 5432, User: "postgres", Name: "postgres"}))
	g.Expect(set.AllowedNamespaces).To(Equal([]string{"a", "b"}))
}

func TestMigrateNamesNoPasswordInItsErrors(t *testing.T) {
	for _, args := range [][]string{
		{"migrate", "--check"}, {"migrate"}, {"migrate", "--uninstall"},
	} {
		for _, url := range []string{"s3cret", "host=h user=u password=s3cret", "postgres://u:s3cret@h:port/d", "postgres://u:s3cret@127.0.0.1:1/d?sslmode=disable"} {
			g := NewWithT(t)
			t.Setenv("DATABASE_URL", url)
			var out bytes.Buffer
			root := rootCommand()
			root.SetArgs(args)
			root.SetOut(&out)
			root.SetErr(&out)
			err := root.ExecuteContext(t.Context())
			g.Expect(err).To(HaveOccurred())
			g.Expect(err.Error() + out.String()).NotTo(ContainSubstring("s3cret"))
		}
	}
}

func TestPartsOfADatabaseNeedItsHost(t *testing.T) {
	root := rootCommand()
	root.SetArgs([]string{"--database-user=u"})
	NewWithT(t).Expect(root.ExecuteContext(t.Context())).To(MatchError(ContainSubstring("needs --database-host")))
}
