// Package decision is the operator's mind: pure functions from what was observed to what is to be done next ([Decide])
// and to what a person is shown ([Status]). It holds no clock, no database and no client, so that tables, fuzzers and
// model checkers can run it.
//
// # What happens next
//
//	                 +------------------- observed ---------------------+
//	                 | no registration        -> CreateRegistration     |
//	                 | spec newer than row    -> ApplySpec              |
//	process,         |                                                  |
//	disabled, ready  | a current invocation   -> Reserve (closes it)    |
//	retryable        | due, or one expired    -> Reserve                |
//	                 | refused, key changed   -> ClearThrottle          |
//	pending          | not sent from here and |                         |
//	                 | the function takes part-> Send                   |
//	                 | otherwise              -> Wait                   |
//	                 +--------------------------------------------------+
//
// # Invariants
//
//  1. Nothing is done for an object that is suspended, a duplicate, or whose credentials or database cannot be used.
//  2. Deciding wrongly costs a query, never a worker: the database checks every reservation again under its lock.
//  3. An invocation that this process did not reserve is sent only for a function that takes part.
//  4. A field of the spec is written once per change of the spec; what others write afterwards is shown, not fought.
//  5. A status holds nothing that moves by itself: two observations between which nothing happened give equal ones.
package decision
