package pgstate

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// States reads every registration in one statement.
func (s *Store) States(ctx context.Context) (Snapshot, error) {
	snapshot, err := s.readStates(ctx, nil)
	return snapshot, TranslateError("read states", err)
}

// StatesOf reads the named registrations in one statement. Those that do not
// exist are absent from the result.
func (s *Store) StatesOf(ctx context.Context, functions []string) (Snapshot, error) {
	if functions == nil {
		functions = []string{} // SQL's null would mean all
	}
	snapshot, err := s.readStates(ctx, functions)
	return snapshot, TranslateError("read states", err)
}

func (s *Store) readStates(ctx context.Context, functions []string) (Snapshot, error) {
	rows, err := s.db.Query(ctx, statesSQL, functions)
	if err != nil {
		return Snapshot{}, err
	}
	defer rows.Close()

	var snapshot Snapshot
	if functions != nil {
		snapshot.States = make([]State, 0, len(functions))
	}
	// One row and one list of destinations serve all rows: a read of ten
	// thousand registrations stays cheap.
	var row stateRow
	destinations := row.destinations()
	for rows.Next() {
		if err := rows.Scan(destinations...); err != nil {
			return Snapshot{}, err
		}
		snapshot.Now = instant(row.now)
		// The clock comes with every row, and alone when there are none.
		if row.functionName.Valid {
			snapshot.States = append(snapshot.States, row.state())
		}
	}
	return snapshot, rows.Err()
}

// stateRow is a row of states.sql.
type stateRow struct {
	now pgtype.Int8

	functionName, startMode, handshake, phase  pgtype.Text
	enabled, takesPart                         pgtype.Bool
	debounce, pendingTimeout, heartbeatTimeout pgtype.Int8
	readyID                                    pgtype.UUID
	readyStartedAt, readyHeartbeatAt           pgtype.Int8
	readyVerified                              pgtype.Bool
	invocationID                               pgtype.UUID
	invocationExpiresAt, retryAt               pgtype.Int8
	failedStarts                               pgtype.Int4
	lastInvocationID                           pgtype.UUID
	lastOutcome, lastOutcomeReason             pgtype.Text
	lastOutcomeAt                              pgtype.Int8
	lastWorkerID                               pgtype.UUID
	lastWorkerStartedAt, lastWorkerEndedAt     pgtype.Int8
	lastWorkerVerified                         pgtype.Bool
}

// destinations lists the fields in the order of the statement's columns.
func (r *stateRow) destinations() []any {
	return []any{
		&r.now,
		&r.functionName, &r.enabled, &r.startMode, &r.handshake, &r.phase, &r.takesPart,
		&r.debounce, &r.pendingTimeout, &r.heartbeatTimeout,
		&r.readyID, &r.readyStartedAt, &r.readyHeartbeatAt, &r.readyVerified,
		&r.invocationID, &r.invocationExpiresAt, &r.retryAt, &r.failedStarts,
		&r.lastInvocationID, &r.lastOutcome, &r.lastOutcomeReason, &r.lastOutcomeAt,
		&r.lastWorkerID, &r.lastWorkerStartedAt, &r.lastWorkerEndedAt, &r.lastWorkerVerified,
	}
}

// state returns the row as a value of its own.
func (r *stateRow) state() State {
	state := State{
		FunctionName:      r.functionName.String,
		Enabled:           r.enabled.Bool,
		StartMode:         r.startMode.String,
		Handshake:         r.handshake.String,
		Phase:             Phase(r.phase.String),
		TakesPart:         r.takesPart.Bool,
		Debounce:          duration(r.debounce),
		PendingTimeout:    duration(r.pendingTimeout),
		HeartbeatTimeout:  duration(r.heartbeatTimeout),
		RetryAt:           instant(r.retryAt),
		FailedStarts:      int(r.failedStarts.Int32),
		LastInvocationID:  uuid.UUID(r.lastInvocationID.Bytes),
		LastOutcome:       r.lastOutcome.String,
		LastOutcomeReason: r.lastOutcomeReason.String,
		LastOutcomeAt:     instant(r.lastOutcomeAt),
	}
	if r.readyID.Valid {
		state.ReadyWorker = &Worker{
			ID:              uuid.UUID(r.readyID.Bytes),
			StartedAt:       instant(r.readyStartedAt),
			LastHeartbeatAt: instant(r.readyHeartbeatAt),
			Verified:        r.readyVerified.Bool,
		}
	}
	if r.invocationID.Valid {
		state.Invocation = &Invocation{
			ID:        uuid.UUID(r.invocationID.Bytes),
			ExpiresAt: instant(r.invocationExpiresAt),
		}
	}
	if r.lastWorkerID.Valid {
		state.LastWorker = &EndedWorker{
			ID:        uuid.UUID(r.lastWorkerID.Bytes),
			StartedAt: instant(r.lastWorkerStartedAt),
			EndedAt:   instant(r.lastWorkerEndedAt),
			Verified:  r.lastWorkerVerified.Bool,
		}
	}
	return state
}
