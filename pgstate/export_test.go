package pgstate

// For the tests that look at a migration's session from inside.
var (
	InMigrationSession = inMigrationSession
	ErrLockLost        = errLockLost
)
