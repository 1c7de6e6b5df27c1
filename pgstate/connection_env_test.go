package pgstate_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgflow-operator/pgflow-operator/hack/testenv/pgtest"
	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// hostile are settings that the driver would otherwise take into account.
func hostile(home string) []string {
	return []string{
		"HOME=" + home, "PGHOST=elsewhere.invalid", "PGPORT=1", "PGDATABASE=elsewhere", "PGUSER=elsewhere",
		"PGPASSWORD=operator-password", "PGPASSFILE=" + filepath.Join(home, ".pgpass"), "PGAPPNAME=elsewhere",
		"PGCONNECT_TIMEOUT=not-a-number", "PGSSLMODE=verify-full", "PGSSLKEY=/nowhere", "PGSSLCERT=/nowhere",
		"PGSSLCERTMODE=nonsense", "PGSSLSNI=0", "PGSSLROOTCERT=/nowhere", "PGSSLPASSWORD=x", "PGSSLNEGOTIATION=direct",
		"PGTARGETSESSIONATTRS=standby", "PGSERVICE=elsewhere", "PGSERVICEFILE=" + filepath.Join(home, ".pg_service.conf"),
		"PGTZ=Asia/Kathmandu", "PGOPTIONS=-c default_transaction_read_only=on", "PGMINPROTOCOLVERSION=nonsense",
		"PGMAXPROTOCOLVERSION=nonsense", "PGCHANNELBINDING=require", "PGREQUIREAUTH=none",
	}
}

// hostileHome returns a home directory with every file that the driver reads.
func hostileHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	must(t, os.Mkdir(filepath.Join(home, ".postgresql"), 0o700))
	for name, text := range map[string]string{
		".pgpass":                    "*:*:*:*:operator-password\n",
		".pg_service.conf":           "[elsewhere]\nhost=elsewhere.invalid\npassword=operator-password\noptions=-c work_mem=64kB\n",
		".postgresql/postgresql.crt": "nonsense",
		".postgresql/postgresql.key": "nonsense",
		".postgresql/root.crt":       "nonsense",
	} {
		must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
	return home
}

const helperURL = "PGSTATE_TEST_URL"

// The environment counts when the process starts and afterwards, so the test
// runs itself with it.
func TestEnvironmentAndFilesHaveNoInfluence(t *testing.T) {
	if url := os.Getenv(helperURL); url != "" {
		showWhatConnects(t, url)
		return
	}
	t.Parallel()
	url, _, _ := strings.Cut(pgtest.NewDatabase(t), "?") // the encryption is the default
	self, err := os.Executable()
	must(t, err)
	for name, extra := range map[string][]string{
		"everything": hostile(hostileHome(t)),
		// A service that cannot be read would stop the driver.
		"service without a file": {"PGSERVICE=elsewhere", "PGSERVICEFILE=/nowhere", "HOME=/nowhere"},
		"nothing":                {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), self, "-test.run=^TestEnvironmentAndFilesHaveNoInfluence$", "-test.v")
			command.Env = append(append(os.Environ(), helperURL+"="+url), extra...)
			output, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(output), "connected as told") {
				t.Fatalf("%v\n%s", err, output)
			}
		})
	}
}

// showWhatConnects runs in a process of its own with a hostile environment.
func showWhatConnects(t *testing.T, url string) {
	service, wasSet := os.LookupEnv("PGSERVICE")
	if wasSet && service != "elsewhere" {
		t.Fatalf("the environment was left changed: PGSERVICE=%q", service)
	}
	c, err := pgstate.ParseURL(url)
	must(t, err)
	config, err := c.PoolConfig()
	must(t, err)
	conn := config.ConnConfig
	if len(conn.RuntimeParams) != 1 || conn.RuntimeParams["application_name"] != "pgflow-operator" ||
		conn.ValidateConnect != nil || conn.SSLNegotiation != "" || conn.SSLCertMode != "allow" || conn.RequireAuth != "" ||
		conn.ChannelBinding != "prefer" || conn.ConnectTimeout != 5*time.Second || conn.MinProtocolVersion != "3.0" ||
		conn.TLSConfig == nil || conn.TLSConfig.RootCAs != nil || len(conn.TLSConfig.Certificates) != 0 {
		t.Fatalf("settings from elsewhere: %+v", conn.Config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	defer pool.Close()
	if database := query[string](t, pool, `SELECT current_database()`); !strings.HasSuffix(url, "/"+database) {
		t.Fatalf("connected to %s", database)
	}
	wantEqual(t, "what the session asks for",
		query[string](t, pool, `SELECT string_agg(name, ',' ORDER BY name) FROM pg_settings WHERE source = 'client'`), "application_name")
	// Nor does anybody fill in what is missing.
	for _, raw := range []string{"postgres://u@db/app", "postgres://:p@db/app", "postgres://u:p@/app", "postgres://u:p@db"} {
		if _, err := pgstate.ParseURL(raw); !errors.Is(err, pgstate.ErrConnection) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	t.Log("connected as told")
}
