package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pgflow-operator/pgflow-operator/pgstate"
)

// errBehind is what --check fails with; its exit code tells it from a check that could not be made.
var errBehind = errors.New("the database is behind")

// exitCode is 3 where a check found the database behind, else 1.
func exitCode(err error) int {
	if errors.Is(err, errBehind) {
		return 3
	}
	return 1
}

func migrateCommand() *cobra.Command {
	var (
		target                                                  migrateTarget
		check, printSQL, createBaseTables, uninstall, withPgNet bool
	)
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Installs the handshake beside pgflow, or checks, prints or removes it",
		Long: "Installs the handshake's columns, functions, view and triggers beside pgflow, or brings them up to date.\n" +
			"It may be repeated and run by several at once. It keeps every row and takes no long lock.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			if printSQL {
				return pgstate.Print(out, pgstate.PrintOptions{CreateBaseTables: createBaseTables, WithPgNet: withPgNet})
			}
			databaseURL, err := target.resolve()
			if err != nil {
				return err
			}
			switch {
			case check:
				return checkVersion(ctx, cmd, databaseURL, withPgNet)
			case uninstall && withPgNet:
				if err := pgstate.UninstallPgNet(ctx, databaseURL); err != nil {
					return err
				}
				_, err := fmt.Fprintln(out, "ensure_workers() is pgflow's own again; the handshake stays")
				return err
			case uninstall:
				if err := pgstate.Uninstall(ctx, databaseURL); err != nil {
					return err
				}
				_, err := fmt.Fprintln(out, "uninstalled: what the operator had installed is gone, pgflow is as it was before")
				return err
			}
			applied, err := pgstate.Migrate(ctx, databaseURL, pgstate.MigrateOptions{
				CreateBaseTables: createBaseTables,
				WithPgNet:        withPgNet,
				Log:              func(line string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), line) },
			})
			if err != nil {
				if errors.Is(err, pgstate.ErrPermission) {
					err = fmt.Errorf("%w; run it as the owner of pgflow's tables", err)
				}
				return err
			}
			done := "nothing to do: the database is up to date"
			if len(applied) > 0 {
				done = fmt.Sprintf("applied %d migrations: the database is up to date", len(applied))
			}
			_, err = fmt.Fprintln(out, done)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&target.url, "database-url", "", "database URL, for a role that owns pgflow's tables (environment DATABASE_URL)")
	f.StringVar(&target.host, "database-host", "", "database host, instead of --database-url, with the password in environment DATABASE_PASSWORD")
	f.Uint16Var(&target.port, "database-port", 5432, "database port, with --database-host")
	f.StringVar(&target.user, "database-user", "postgres", "database user, with --database-host; must own pgflow's tables")
	f.StringVar(&target.name, "database-name", "postgres", "database name, with --database-host")
	f.BoolVar(&check, "check", false, "change nothing; exit with 3 if the database is behind")
	f.BoolVar(&printSQL, "print", false, "write the SQL to standard output for psql or another tool, including the record of its version")
	f.BoolVar(&createBaseTables, "create-base-tables", false, "create pgflow's two tables where pgflow is absent, for trials and tests")
	f.BoolVar(&uninstall, "uninstall", false, "drop exactly what was installed; the tables of --create-base-tables only when they are empty")
	f.BoolVar(&withPgNet, "with-pg-net", false, "also make pgflow's ensure_workers() token-aware, for databases where pg_cron and pg_net start functions; with --uninstall: only restore what it was")
	cmd.MarkFlagsMutuallyExclusive("database-url", "database-host")
	cmd.MarkFlagsMutuallyExclusive("check", "print", "uninstall")
	cmd.MarkFlagsMutuallyExclusive("check", "create-base-tables")
	cmd.MarkFlagsMutuallyExclusive("uninstall", "create-base-tables")
	return cmd
}

// migrateTarget is the database to migrate, as the flags and the environment name it.
type migrateTarget struct {
	url, host, user, name string
	port                  uint16
}

// resolve returns the target's URL.
func (t migrateTarget) resolve() (string, error) {
	if t.host != "" {
		password := os.Getenv("DATABASE_PASSWORD")
		if password == "" {
			return "", errors.New("--database-host needs the password in environment DATABASE_PASSWORD")
		}
		return (&url.URL{
			Scheme: "postgres",
			User:   url.UserPassword(t.user, password),
			Host:   net.JoinHostPort(t.host, strconv.Itoa(int(t.port))),
			Path:   "/" + t.name,
		}).String(), nil
	}
	if t.url == "" {
		t.url = os.Getenv("DATABASE_URL")
	}
	if t.url == "" {
		return "", errors.New("--database-url (or DATABASE_URL), or --database-host, is needed")
	}
	return t.url, nil
}

// checkTimeout bounds a check as a whole.
const checkTimeout = 30 * time.Second

// checkVersion says whether the database has all migrations, and an
// ensure_workers() that is as it was installed; with wantPgNet it must be
// installed.
func checkVersion(ctx context.Context, cmd *cobra.Command, databaseURL string, wantPgNet bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("the database did not answer within %v", checkTimeout))
	defer cancel()
	target, err := pgstate.ParseURL(databaseURL)
	if err != nil {
		return err
	}
	config, err := target.PoolConfig()
	if err != nil {
		return err
	}
	connection, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return pgstate.TranslateError("connect", err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }() // the process ends
	version, err := pgstate.Check(ctx, connection)
	if err != nil {
		return err
	}
	if version.Behind() {
		return fmt.Errorf("%w: it has version %d, this program needs %d; run `manager migrate`", errBehind, version.Current, version.Latest)
	}
	sqlPath, err := pgstate.CheckPgNet(ctx, connection)
	if err != nil {
		return err
	}
	switch {
	case sqlPath == pgstate.PgNetReplaced:
		return fmt.Errorf("%w: something else, as a migration of pgflow's, has replaced the token-aware ensure_workers(); run `manager migrate --with-pg-net`", errBehind)
	case sqlPath == pgstate.PgNetOutdated:
		return fmt.Errorf("%w: its token-aware ensure_workers() is of another version; run `manager migrate --with-pg-net`", errBehind)
	case wantPgNet && sqlPath != pgstate.PgNetCurrent:
		return fmt.Errorf("%w: its ensure_workers() is not token-aware; run `manager migrate --with-pg-net`", errBehind)
	}
	done := ""
	if sqlPath.TokenAware() {
		done = ", ensure_workers() is token-aware"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "up to date: version %d%s\n", version.Current, done)
	return err
}
