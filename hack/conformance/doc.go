// Command conformance drives a running worker function, written in any language, through every case of the start-up
// handshake that a worker can get wrong, and prints a table: case, expected, seen, passed.
//
//	go run ./hack/conformance --endpoint URL [--endpoint URL] --key-file FILE --function NAME --database-url URL
//
// It talks to the worker as a starter does, over HTTP, and to its database. The worker needs no test hooks: whatever
// state a case wants the worker in, the kit brings about from the database.
//
//   - A slow boot: the kit holds the registration's row lock until the worker's receive_invocation waits for it, and
//     queues for the table behind that. It gets it before the worker can ask to be admitted, so the invocation can
//     expire between the two, however quick the boot. All registrations of the database wait meanwhile, up to 3 s.
//   - Two runtimes at once: the same locks hold both until both have received and both want to be admitted.
//   - A lost answer: the kit terminates the database session in which the worker waits to be admitted; once that is all,
//     once it has the worker's row admitted in its stead, as if only the answer had been lost. A lock timeout: it keeps
//     the lock for longer than that.
//   - A start that fails: a trigger lets the database refuse the worker's row.
//   - A loop too busy to beat: a trigger lets heartbeats have no effect, except those of receive_invocation.
//   - The end of a worker: its row is deprecated, marked stopped, or deleted.
//   - Late, used, superseded and foreign ids: reservations are made, expired and replaced in the rows.
//
// # What it needs
//
//   - An endpoint as a starter is given it: the functions URL, to which the function's name is added. Duplicate delivery
//     to two runtimes needs --endpoint twice: two runtimes (isolates, pods, processes) that serve the same function and
//     share only the database. Without, that case is skipped.
//   - A session of its own in the database, not through a transaction pooler, as the owner of pgflow.workers (for the
//     triggers) who may see and end the worker's sessions. What the role may not do is skipped, with the reason.
//   - Nobody else who starts the function while it runs: no operator, no cron job, no requests.
//
// # What it leaves
//
// The registration is as it was before, and the rows of the workers that were started are gone; their loops end by
// themselves, as deprecated workers do and those whose rows are gone. The triggers are temporary objects of its session,
// which vanish with it, even when it is killed. It refuses a function with a healthy worker or a pending invocation;
// with --force it ends both first, and they stay ended.
//
// Each case has a deadline, which the error names; against a worker that answers at once all of them take 10 s.
//
// Exit codes: 0, no case failed; 1, at least one did; 2, the cases could not be run. With --json the same as JSON.
package main
