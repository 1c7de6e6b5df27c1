// Package delivery sends reserved invocations to worker functions over HTTP
// and tells what became of them.
//
// It owns the contract's table "what the sender sees": one request per
// attempt, on a connection of its own, never through a proxy, never following
// a redirect, so that the key reaches the endpoint and nobody else.
//
//	what the attempt saw                    then
//	name cannot be one path segment         nothing sent; dismiss invalid_name        Refused
//	no connection, DNS, TLS                 same id again, 100 ms doubling to 5 s, if
//	                                        Wanted says so                            (NotDelivered at expiry)
//	401, 403                                dismiss auth_rejected                     Refused
//	404                                     dismiss route_not_found                   Refused
//	3xx                                     dismiss redirected                        Refused
//	other 4xx but 409                       dismiss http_<status>                     Refused
//	timeout, reset, 5xx, not HTTP           same id again from 1 s up, if Resend says so; Unknown
//	2xx, 409                                nothing: the database knows               Delivered
//	shutdown, newer id, Forget, not Wanted  nothing: never dismissed                  Abandoned
//
// Invariants:
//
//   - At most one attempt is under way per (database, function); a newer id
//     begins only when the older one's delivery has ended.
//   - Nothing is sent, and nothing is sent again, once the time that the
//     database granted the invocation is over. It is measured from the call of
//     Deliver on this process's monotonic clock, and is late by what the answer
//     of the database took to arrive; the database rejects what comes then.
//   - Before every attempt it is asked anew whether the id is still wanted, and
//     where it goes: an id that was closed meanwhile is not sent, and a corrected
//     endpoint or key is used at once, for the same id.
//   - "Not delivered" is only said of a request that never had a connection.
//     Once one attempt may have arrived, every further one asks Resend first.
//   - Uncertainty is never turned into a dismissal; nor is the end of this
//     process.
//   - Nothing that a server answers reaches a log or a status but the status
//     code and one JSON field, printable, at most 256 characters, without the
//     key.
//   - Deliver never blocks. A delivery costs one goroutine; attempts, which
//     cost a connection, are bounded by Options.MaxConcurrent, and a delivery
//     that waits to send again does not count.
package delivery
