// Command bench measures how soon the operator replaces workers, beside the old cron job (package oldtick) ticking each
// second, its fastest: in one run, on this machine, against real servers.
//
//	go run ./hack/bench           prints a table
//	go run ./hack/bench -json     prints the same figures as JSON
//
// Two things are measured, first for the operator and then for the old tick, which do not run at the same time, each
// with a database and an edge runtime stand-in of its own on the same PostgreSQL server:
//
//   - Stops: of 1,000 functions with a worker each, 100 lose theirs one after the other, at random moments. The worker
//     ends as workers do, with mark_worker_stopped in its beforeunload. The time runs from before that statement is
//     sent, so the commit is in it, to when the stand-in has the next request for the function.
//   - Loss: all 1,000 workers are marked stopped in one transaction and their runtimes end; boots then hang for 30 s.
//     The time runs from before that statement is sent until every function was requested, and all requests that come
//     while the boots hang are counted. Then the boots are let go, and the workers that result are counted.
//
// What holds:
//
//   - The operator is a process of its own, built as for a release, with the permissions of config/rbac. It writes all
//     statuses while it is measured. kube-apiserver, etcd, PostgreSQL and the stand-in share the machine with it.
//   - PostgreSQL has its own defaults for durability: fsync, full_page_writes and synchronous_commit are on.
//   - Both ends of every time are read from one clock, the stand-in's.
//   - Both sides have the same registrations, debounce and heartbeats, and workers of a kind that suits them: those for
//     the old tick take no part in the handshake. Heartbeats are three times as frequent as the debounce, or the old
//     tick would take workers for dead that live. Its database has the handshake installed too, as on the first day
//     of a rollout.
//   - A measurement begins when all functions have a worker and their throttles are over; for the operator also only
//     when all objects say Ready.
//   - It ends by itself, within four minutes or with an error, and leaves nothing behind.
//
// Exit codes: 0, there are figures, and the operator sent one request for each function that had lost its worker; 1
// otherwise. No time makes it fail.
package main
