// Package edgeruntime is a stand-in for a self-hosted Supabase edge runtime with pgflow worker functions in it, for
// tests, the demo and benchmarks. It is not a fake of the operator's database: its runtimes talk to the real one, and
// what they write there is what real workers write.
//
// It owns
//   - a gateway on loopback that serves /functions/v1/<name> and /<name> and can misbehave like one (Mode, VerifyJWT,
//     a gateway that is down, a gateway that gives up after 150 s);
//   - isolates ("runtimes"): booted one per request that finds none active, retired at half of the wall clock, told
//     `beforeunload` at 90 % of it, killed at its end;
//   - workers in three kinds (Kind): one that takes part in the start-up handshake and the two published generations
//     that do not;
//   - a control API on a port of its own (Client) through which all of that is changed while it runs, and a log of
//     every request with its time of arrival.
//
// # An isolate's life
//
//	request, none active      boot + gate          wall clock / 2        90 %                100 %
//	---------------------> booting --------> active ------------> retired -----> unloading -------> ended
//	                          |                 |                    |               |                ^
//	                          +-----------------+--- kill (without beforeunload) ----+----------------+
//
// # Invariants
//
//   - Isolates share nothing but the database: no worker, id, start or failure of one is visible to another. What the
//     control API changes (FunctionConfig) is the environment, not shared state.
//   - A booting isolate takes no second request; a retired one takes none at all, and its worker works on.
//   - A request that was handed to an isolate is worked on to its end, whether or not its sender still waits.
//   - All runtimes use one pool of Options.PoolSize connections. A running worker costs at most one goroutine, none
//     with Options.BatchHeartbeats.
//   - Nothing is announced to the database when an isolate is killed or the Server closed: that is what makes the
//     difference between stopped and dead workers.
package edgeruntime
