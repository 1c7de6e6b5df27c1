package pgstate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/pressly/goose/v3"
)

// MigrateOptions are the choices of Migrate.
type MigrateOptions struct {
	// CreateBaseTables makes pgflow's two tables first where there is no
	// pgflow, for trials and tests.
	CreateBaseTables bool
	// WithPgNet also makes ensure_workers() token-aware, for databases whose
	// functions are started by pg_cron and pg_net.
	WithPgNet bool
	// Log receives a line for each thing done; nil: none.
	Log func(line string)
}

// Migrate installs the handshake in the database at url, or brings it up to
// date, and returns the names of the migrations that it applied. It may be
// called at any time from any number of processes; one of them works, the
// others wait. It needs a connection of its own for its whole duration: not
// one through a transaction pooler.
//
// ErrPgflowMissing, ErrPgNetMissing and *ConflictError are refusals, made before
// anything is changed. A lock that workers hold is waited for in short attempts, so that
// they never queue behind it for long; after about a minute of these the error
// is ErrLockTimeout. What was applied by then stays, and the next call goes on
// from there.
func Migrate(ctx context.Context, url string, options MigrateOptions) ([]string, error) {
	log := options.Log
	if log == nil {
		log = func(string) {}
	}
	var applied []string
	err := inMigrationSession(ctx, url, func(db *sql.DB) error {
		return retryLockTimeouts(ctx, log, func() error {
			if err := prepareSchema(ctx, db, options); err != nil {
				return err
			}
			results, err := applyMigrations(ctx, db)
			for _, result := range results {
				name := path.Base(result.Source.Path)
				log(fmt.Sprintf("applied %s in %s", name, result.Duration.Round(time.Millisecond)))
				applied = append(applied, name)
			}
			if err != nil || !options.WithPgNet {
				return err
			}
			replaced, err := installPgNet(ctx, db)
			if replaced {
				log("applied " + pgNetName + ": ensure_workers() is token-aware")
				applied = append(applied, pgNetName)
			}
			return err
		})
	})
	return applied, TranslateError("migrate", err)
}

// prepareSchema does what precedes the migrations, all or nothing: a refusal
// takes back the base tables too.
func prepareSchema(ctx context.Context, db *sql.DB, options MigrateOptions) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says only that it committed, or that the connection is gone
	var scripts []string
	if options.CreateBaseTables {
		scripts = append(scripts, baseTablesSQL)
	}
	scripts = append(scripts, preflightSQL)
	if options.WithPgNet {
		scripts = append(scripts, pgNetPreflightSQL)
	}
	scripts = append(scripts, versionTableSQL)
	for _, script := range scripts {
		if _, err := tx.ExecContext(ctx, script); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// applyMigrations applies what is missing and returns what it applied, also
// with an error.
func applyMigrations(ctx context.Context, db *sql.DB) ([]*goose.MigrationResult, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versionTable),
		goose.WithDisableGlobalRegistry(true),
	)
	if err != nil {
		return nil, err
	}
	results, err := provider.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		return partial.Applied, err
	}
	return results, err
}

// SchemaVersion says what is installed.
type SchemaVersion struct {
	// Current is the newest migration that was applied; 0: none.
	Current int64
	// Latest is the newest that this build has.
	Latest int64
}

// Behind tells whether migrating would change anything.
func (v SchemaVersion) Behind() bool { return v.Current < v.Latest }

// Check reads what is installed. Nothing at all is no error.
func Check(ctx context.Context, db Querier) (SchemaVersion, error) {
	const operation = "check schema version"
	latest, err := latestVersion()
	if err != nil {
		return SchemaVersion{}, fmt.Errorf("%s: %w", operation, err)
	}
	version := SchemaVersion{Latest: latest}
	err = TranslateError(operation, db.QueryRow(ctx, checkSQL).Scan(&version.Current))
	if errors.Is(err, ErrSchemaMissing) {
		return version, nil
	}
	return version, err
}

// Uninstall drops exactly what Migrate made in the database at url, with what
// the handshake has stored in it, and restores the ensure_workers() that
// WithPgNet replaced; pgflow then works as before. On a database without the
// handshake it does nothing.
func Uninstall(ctx context.Context, url string) error {
	// One string is one transaction.
	return runUninstall(ctx, "uninstall", url, pgNetUninstallSQL+uninstallSQL)
}

func runUninstall(ctx context.Context, operation, url, script string) error {
	err := inMigrationSession(ctx, url, func(db *sql.DB) error {
		return retryLockTimeouts(ctx, func(string) {}, func() error {
			_, err := db.ExecContext(ctx, script)
			return err
		})
	})
	return TranslateError(operation, err)
}
