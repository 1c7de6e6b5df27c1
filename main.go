// Command manager is the pgflow-operator: it keeps pgflow's worker functions started. `manager migrate` installs its
// part of the database.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// Every connection is described by flags, Secrets or DATABASE_URL alone: a variable like PGPASSWORD must not fill
	// a gap in somebody else's connection string.
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(exitCode(err))
	}
}

func rootCommand() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:           "manager",
		Short:         "Keeps pgflow's worker functions started",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, part := range []string{"database-port", "database-user", "database-name"} {
				if cmd.Flags().Changed(part) && !cmd.Flags().Changed("database-host") {
					return fmt.Errorf("--%s needs --database-host", part)
				}
			}
			set, err := o.set()
			if err != nil {
				return err
			}
			return run(cmd.Context(), o, set)
		},
	}
	o.register(root.Flags())
	root.AddCommand(migrateCommand())
	return root
}
