package v1alpha1

// The types of the conditions. All carry observedGeneration. Ready and Registered are always present once the
// operator has looked at the object; the other four are present only while they are True, and absent otherwise, so
// that kstatus and `kubectl wait` read the object correctly: Reconciling means "in progress", Stalled "failed", and
// neither of them "current" where Ready is True.
const (
	// ConditionReady: positive polarity, always present. Nobody needs to look at this function: it has a healthy
	// worker, or is about to have its next one as usual, or is meant to have none.
	//
	// True:    WorkerReady, WorkerUnverified, Replacing, Disabled, ProcessManaged.
	// False:   Starting, Retrying, Throttled, SpecNotApplied, RegistrationMissing, and every reason of Stalled.
	// Unknown: Observing, DatabaseUnavailable.
	// Suspended stands with whichever status was last known, Unknown when none was.
	ConditionReady = "Ready"

	// ConditionReconciling: negative polarity, present only while True. The operator is at work and needs nobody.
	//
	// True: Observing, Starting, Retrying, Throttled, SpecNotApplied, RegistrationMissing, DatabaseUnavailable; the same
	// reason as Ready has. Never together with Stalled.
	ConditionReconciling = "Reconciling"

	// ConditionStalled: negative polarity, present only while True. Nothing will get better until a person does
	// something, which the message names; the operator notices when it is done. (A refused start is tried again now and
	// then all the same.)
	//
	// True: SpecNotApplied where this pgflow cannot hold a value, DisabledInDatabase, Duplicate, SecretMissing, SecretInvalid, DatabaseURLInvalid,
	// DatabaseAuthenticationFailed, DatabasePermissionDenied, DatabaseReadOnly, SchemaMissing, NamespaceNotAllowed,
	// SetIncomplete, AuthRejected, RouteNotFound, Refused; the same reason as Ready has.
	ConditionStalled = "Stalled"

	// ConditionRegistered: positive polarity, always present. The registration exists in the database.
	//
	// True:    Registered.
	// False:   RegistrationMissing.
	// Unknown: Observing, where the database has not been read yet; DatabaseUnavailable, or the reason of Stalled, where
	// it cannot be read.
	ConditionRegistered = "Registered"

	// ConditionInvocationPending: neither good nor bad, present only while True. An invocation is pending: a worker was
	// asked for and has not registered yet. status.invocation has its id and expiry.
	//
	// True: Reserved.
	ConditionInvocationPending = "InvocationPending"

	// ConditionDrifted: negative polarity, present only while True. A mirrored field that the spec sets has another
	// value in the database, set there by someone else. It is shown, not fought; writing the spec's field anew
	// (another value, then the wanted one) or changing the row ends it.
	//
	// True: ValuesDiffer; the message names the fields with both values.
	ConditionDrifted = "Drifted"
)

// Reasons of a Ready condition that is True: nobody needs to do anything.
const (
	// ReasonWorkerReady: a healthy worker that was admitted with an invocation.
	ReasonWorkerReady = "WorkerReady"
	// ReasonWorkerUnverified: a healthy worker that registered without an invocation, as published pgflow workers
	// do. It works; that it is the only one is not vouched for.
	ReasonWorkerUnverified = "WorkerUnverified"
	// ReasonReplacing: the last worker ended in the ordinary way and its successor is being started, for no longer
	// than pending_timeout after its end.
	ReasonReplacing = "Replacing"
	// ReasonDisabled: spec.enabled is false, and so is the registration.
	ReasonDisabled = "Disabled"
	// ReasonProcessManaged: the start mode is process; the function's process starts by itself.
	ReasonProcessManaged = "ProcessManaged"
)

// Reasons for which the operator itself is at work: Ready is False (Unknown for the first and the last), Reconciling
// True.
const (
	// ReasonObserving: the database has not been read yet since the operator began.
	ReasonObserving = "Observing"
	// ReasonSpecNotApplied: the registration does not have the spec's values yet.
	ReasonSpecNotApplied = "SpecNotApplied"
	// ReasonRegistrationMissing: the registration does not exist (any more), and is created next. The one reason
	// that Registered has when it is False.
	ReasonRegistrationMissing = "RegistrationMissing"
	// ReasonStarting: the first start is wanted or pending.
	ReasonStarting = "Starting"
	// ReasonRetrying: a start failed and the next one is pending, or due.
	ReasonRetrying = "Retrying"
	// ReasonThrottled: the next start waits until status.nextAttemptAt, after failed ones.
	ReasonThrottled = "Throttled"
	// ReasonDatabaseUnavailable: the database has not answered for 30 seconds. Ready and Registered are Unknown.
	ReasonDatabaseUnavailable = "DatabaseUnavailable"
)

// ReasonSuspended: spec.suspend is true; the operator watches and does nothing. Ready keeps its last known status,
// and neither Reconciling nor Stalled is present.
const ReasonSuspended = "Suspended"

// Reasons for which a person is needed: Ready is False, Stalled True.
const (
	// ReasonDisabledInDatabase: the registration was switched off by pgflow (a worker with a wrong route) or by a
	// person. It is not switched back on behind their back.
	ReasonDisabledInDatabase = "DisabledInDatabase"
	// ReasonDuplicate: an older object stands for the same registration. This one changes nothing, and takes over
	// when the other is gone.
	ReasonDuplicate = "Duplicate"

	// ReasonSecretMissing: a Secret that the object or the operator refers to, or the key in it, does not exist.
	ReasonSecretMissing = "SecretMissing"
	// ReasonSecretInvalid: the Secret's value is there and cannot be used, for example an empty key.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonNamespaceNotAllowed: the object uses the operator's own database, endpoint and key, and its namespace
	// may not.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonSetIncomplete: the object uses the operator's own database, endpoint and key, and the operator was
	// started without one of them.
	ReasonSetIncomplete = "SetIncomplete"

	// ReasonDatabaseURLInvalid: the connection string cannot be parsed, does not name host, user, password and
	// database, or has a parameter that is not allowed.
	ReasonDatabaseURLInvalid = "DatabaseURLInvalid"
	// ReasonDatabaseAuthenticationFailed: the database refuses the user or the password.
	ReasonDatabaseAuthenticationFailed = "DatabaseAuthenticationFailed"
	// ReasonDatabasePermissionDenied: the database's user lacks a privilege.
	ReasonDatabasePermissionDenied = "DatabasePermissionDenied"
	// ReasonDatabaseReadOnly: the database takes no writes, for example because it is a replica.
	ReasonDatabaseReadOnly = "DatabaseReadOnly"
	// ReasonSchemaMissing: pgflow, or the handshake beside it, is not installed or too old: run `manager migrate`.
	ReasonSchemaMissing = "SchemaMissing"

	// ReasonAuthRejected: the endpoint answered 401 or 403, before the function.
	ReasonAuthRejected = "AuthRejected"
	// ReasonRouteNotFound: the endpoint answered 404: the function is not deployed there, or the URL is wrong.
	ReasonRouteNotFound = "RouteNotFound"
	// ReasonRefused: the endpoint answered with a redirect or another 4xx.
	ReasonRefused = "Refused"
)

// Reasons of the conditions that have only one.
const (
	// ReasonRegistered is Registered's when True.
	ReasonRegistered = "Registered"
	// ReasonReserved is InvocationPending's: an invocation was reserved and has not expired.
	ReasonReserved = "Reserved"
	// ReasonValuesDiffer is Drifted's.
	ReasonValuesDiffer = "ValuesDiffer"
)
