package pgstate

import (
	_ "embed" // the script's template lives in a file of its own
	"fmt"
	"io"
	"text/template"
)

//go:embed sql/print.sql.tmpl
var printTemplate string

// PrintOptions are the choices of Print.
type PrintOptions struct {
	// CreateBaseTables puts pgflow's two tables first, for trials and tests.
	CreateBaseTables bool
	// WithPgNet puts the token-aware ensure_workers() last.
	WithPgNet bool
}

// Print writes the SQL that Migrate runs as one script for psql, for people
// who keep their own migrations. It records its versions as Migrate does, so
// that Check and a later Migrate are content. It may be run again.
func Print(w io.Writer, options PrintOptions) error {
	const operation = "print migrations"
	all, err := migrations()
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	script, err := template.New("print").Parse(printTemplate)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	parts := map[string]any{
		"Session":      sessionSQL,
		"Preflight":    preflightSQL,
		"VersionTable": versionTableSQL,
		"Migrations":   all,
		"TableName":    versionTable,
	}
	if options.CreateBaseTables {
		parts["BaseTables"] = baseTablesSQL
	}
	if options.WithPgNet {
		parts["PgNetPreflight"] = pgNetPreflightSQL
		parts["PgNet"] = pgNetInstallSQL()
	}
	if err := script.Execute(w, parts); err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return nil
}
