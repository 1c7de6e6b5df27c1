package pgstate

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// What migrating needs beside the numbered migrations.
var (
	//go:embed sql/session.sql
	sessionSQL string
	//go:embed sql/base_tables.sql
	baseTablesSQL string
	//go:embed sql/preflight.sql
	preflightSQL string
	//go:embed sql/version_table.sql
	versionTableSQL string
	//go:embed sql/check.sql
	checkSQL string
	//go:embed sql/uninstall.sql
	uninstallSQL string
)

// versionTable is where goose keeps what was applied. It is in pgflow's schema
// because Supabase publishes the public one over HTTP.
const versionTable = "pgflow.operator_schema_version"

// migration is one embedded migration.
type migration struct {
	Version int64
	Name    string // the file's
	// SQL is the file without the migration tool's annotations.
	SQL string
	// Transactional migrations run in one transaction.
	Transactional bool
}

// migrations returns the embedded migrations in ascending order.
func migrations() ([]migration, error) {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql") // in lexical order: the numbers are padded
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	all := make([]migration, 0, len(files))
	for _, file := range files {
		name := path.Base(file)
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s does not begin with its number: %w", name, err)
		}
		text, err := migrationFiles.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		sql, transactional := stripAnnotations(string(text))
		all = append(all, migration{Version: version, Name: name, SQL: sql, Transactional: transactional})
	}
	return all, nil
}

// stripAnnotations removes goose's comment lines. Migrations only go forward,
// so all of a file's statements are its upward ones.
func stripAnnotations(text string) (sql string, transactional bool) {
	const mark = "-- +goose "
	transactional = true
	var b strings.Builder
	for line := range strings.Lines(text) {
		annotation, ok := strings.CutPrefix(line, mark)
		if !ok {
			b.WriteString(line)
			continue
		}
		if strings.TrimSpace(annotation) == "NO TRANSACTION" {
			transactional = false
		}
	}
	return b.String(), transactional
}

// latestVersion is that of the newest embedded migration.
func latestVersion() (int64, error) {
	all, err := migrations()
	if err != nil {
		return 0, err
	}
	var latest int64
	for _, m := range all {
		latest = max(latest, m.Version)
	}
	return latest, nil
}
