// Package observer reads PostgreSQL for the reconciler: one pool and one observer per distinct database connection,
// however many WorkerFunctions use it. It writes nothing.
//
// # What it owns
//
// A [Registry] hands out a [Database] to each user (a WorkerFunction) and closes it with its last user. A Database
// owns at most eight connections plus one for LISTEN, the last state read of every function that has users, and
// the moment at which each of them next needs attention.
//
//	NOTIFY ----> listener --+
//	                        |        one read at a time
//	deadline passed --------+--> loop ----------------> states --> wake(users of what differs)
//	sweep, Refresh, Acquire-+     |
//	                              +-- failed: back off, then read all in use
//
// # Invariants
//
//  1. Reads of a database follow one another, never beside one another, so a state is never replaced by an older one.
//  2. What is notified while a read is under way is read again after it: the read may have begun before the commit.
//  3. LISTEN comes before the read that relies on it. A listener that (re)connects causes a full read; so does the
//     end of a run of failed reads. While LISTEN does not work, the full read takes place every second.
//  4. LISTEN counts as working only while notifications sent over another connection arrive. A transaction pooler
//     takes the statement, reports success and delivers nothing.
//  5. A user is woken when what a decision or a status looks at has changed in its function, never for a heartbeat.
//     A deadline that passes is such a change, once: it is armed only while it lies ahead of the database's clock as
//     read, so a state that stays overdue wakes nobody again.
//  6. Times are the database's. They become local ones only through the offset seen between its clock and the local
//     monotonic clock at a read, and nothing is decided by a deadline before the database was asked again.
//  7. Only functions in use are read, whatever else is registered, and nothing is read without a bound: the database
//     may be a tenant's, and its views and tables what the tenant likes.
//  8. Everything is bounded: one read in flight, at most 200 batches a second of at most 2,000 functions, fewer where
//     they take the database long, one full read a second, one waiting entry per function in use whatever is notified.
//     Idle, ten thousand functions cost one query a second: the sweep reads them in parts, so that none keeps a
//     notification waiting for long.
//  9. [Registry.Start] returns after every goroutine and connection of the package has ended.
package observer
