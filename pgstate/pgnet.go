package pgstate

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed" // the statements are files
	"encoding/hex"
	"strings"
)

// The SQL path is not among the numbered migrations: it is opt-in, so that its
// absence is no arrears, and pgflow may replace the function at any time, so
// that a record of having installed it would say nothing.
var (
	//go:embed pgnet/preflight.sql
	pgNetPreflightSQL string
	//go:embed pgnet/keep.sql
	pgNetKeepSQL string
	//go:embed pgnet/path_segment.sql
	pgNetPathSegmentSQL string
	//go:embed pgnet/ensure_workers.sql
	pgNetEnsureWorkersSQL string
	//go:embed pgnet/mark.sql
	pgNetMarkSQL string
	//go:embed pgnet/check.sql
	pgNetCheckSQL string
	//go:embed pgnet/uninstall.sql
	pgNetUninstallSQL string
)

// pgNetName is what Migrate calls the SQL path among what it applied.
const pgNetName = "ensure_workers.sql"

// PgNetState says what pgflow.ensure_workers() is, which a pg_cron job calls to
// start functions through pg_net.
type PgNetState string

const (
	// PgNetAbsent: it is not ours and was not since the SQL path was last uninstalled.
	PgNetAbsent PgNetState = "absent"
	// PgNetCurrent: it is this build's.
	PgNetCurrent PgNetState = "current"
	// PgNetOutdated: it is that of another build.
	PgNetOutdated PgNetState = "outdated"
	// PgNetReplaced: it was ours and is not any more, as after a migration of
	// pgflow's that defines it anew; migrating WithPgNet makes it ours again.
	PgNetReplaced PgNetState = "replaced"
)

// TokenAware tells whether the function sends only what it has reserved.
func (s PgNetState) TokenAware() bool { return s == PgNetCurrent || s == PgNetOutdated }

// CheckPgNet reads what ensure_workers() is. Any role may: it needs the
// catalogue alone. A database without pgflow has PgNetAbsent.
func CheckPgNet(ctx context.Context, db Querier) (PgNetState, error) {
	var state PgNetState
	err := db.QueryRow(ctx, pgNetCheckSQL, pgNetBodyHash()).Scan(&state)
	return state, TranslateError("check ensure_workers()", err)
}

// UninstallPgNet restores the ensure_workers() that migrating WithPgNet
// replaced, with its owner, privileges and comment, or drops ours where there
// was none, and leaves the handshake in place. Where something newer has
// replaced ours already, that stays. Without the SQL path it does nothing.
func UninstallPgNet(ctx context.Context, url string) error {
	return runUninstall(ctx, "uninstall the SQL path", url, pgNetUninstallSQL)
}

// pgNetInstallSQL are the scripts that install the SQL path, in order, for one
// transaction. They may be repeated.
func pgNetInstallSQL() []string {
	return []string{pgNetKeepSQL, pgNetPathSegmentSQL, pgNetEnsureWorkersSQL, pgNetMarkSQL}
}

// installPgNet installs the SQL path, all or nothing, and returns whether that
// changed anything.
func installPgNet(ctx context.Context, db *sql.DB) (bool, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // says only that it committed, or that the connection is gone
	var state PgNetState
	if err := tx.QueryRowContext(ctx, pgNetCheckSQL, pgNetBodyHash()).Scan(&state); err != nil || state == PgNetCurrent {
		return false, err
	}
	for _, script := range pgNetInstallSQL() {
		if _, err := tx.ExecContext(ctx, script); err != nil {
			return false, err
		}
	}
	return true, tx.Commit()
}

// pgNetBodyHash is what the database makes of the body of this build's
// ensure_workers(): the text between its dollar quotes.
func pgNetBodyHash() string {
	const quote = "$body$"
	_, body, _ := strings.Cut(pgNetEnsureWorkersSQL, quote)
	body, _, _ = strings.Cut(body, quote)
	hash := sha256.Sum256([]byte(body))
	return hex.EncodeToString(hash[:])
}
