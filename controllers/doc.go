// Package controllers keeps pgflow's worker functions started, as WorkerFunction objects ask for. It owns the reconciler:
// what is observed for an object, which packages act on it, and who is woken by what.
//
//	WorkerFunction, Secrets ---watch---> [WorkerFunctionReconciler] <---wake--- observer   <--- PostgreSQL
//	                                       |  observe: credentials, duplicates, observer's snapshot
//	                                       |  decide:  package decision, pure
//	                                       |  act:     pgstate.Store ------------------------> PostgreSQL
//	                                       |           delivery (never waited for) ----------> edge functions
//	                                       +- report:  statuswriter (never waited for) ------> API server
//
// # Invariants
//
//  1. A reconcile reads no database, waits for no HTTP request and for no status write. It writes to the database at most
//     once; what that changes comes back through the observer as the next observation.
//  2. Whether anything is started is decided by PostgreSQL alone. A stale cache, a lost status, a second operator or a
//     lost leadership cost at most a query.
//  3. Of several objects for one registration the oldest acts; the others change nothing.
//  4. No side effect depends on a status having been written. status.applied lost means that a value is written again.
//  5. An object becomes deletable whatever is broken: its finalizer is given up after two minutes.
package controllers
