/**
 * Lets a worker function built on the published worker library take part in the start-up handshake: of all runtimes that
 * are asked to start with one invocation, one does.
 *
 * ```ts
 * import { serveWorker } from "./handshake.ts";
 * serveWorker(({ sql }) => EdgeWorker.start(MyFlow, { sql }));
 * ```
 *
 * The module owns `Deno.serve`. It has four parts: auth.ts (who may ask), participant.ts (what a request leads to),
 * library.ts (the library that it hosts, and the statements that it sends), database.ts (the contract's operations).
 *
 * Invariants:
 *
 * - Nothing is decided at module initialisation; a request is authenticated before anything else happens to it.
 * - The library is started by a valid invocation alone, and its registration carries that invocation's id or is not sent.
 * - One request of a runtime is worked on at a time; the others wait and then ask the database afresh.
 * - A runtime whose loop runs never starts a second one. Where its worker's row no longer counts (stopped, deprecated,
 *   deleted), a later invocation gives that same loop a new row.
 * - `mark_worker_stopped` is sent only for rows that were admitted in this runtime.
 * - No statement needs a session: a transaction pooler is enough, and so is one connection.
 *
 * @module
 */
import postgres from "./postgres.ts";
import { Database } from "./database.ts";
import { Library } from "./library.ts";
import { Participant } from "./participant.ts";

/** What the library is to be started with. */
export interface WorkerContext {
  /** Hand this to the library as `config.sql`: through it the registration gets its invocation id. */
  sql: postgres.Sql;
}

export interface ServeOptions {
  /**
   * The connections to use, for the handshake and the library. Without it, up to 4 are made to `EDGE_WORKER_DB_URL`, else
   * `SUPABASE_DB_URL`. Behind a transaction pooler it must have been made with `prepare: false`.
   */
  sql?: postgres.Sql;
}

/**
 * Serves a worker function. Call it once, instead of starting the library.
 *
 * @param start starts the library with the given `sql`, as in the example above. It is called when the first invocation
 * is to be started, again only if it failed before the library began to serve.
 */
export function serveWorker(start: (context: WorkerContext) => unknown, options: ServeOptions = {}): void {
  let participant: Participant | undefined;
  const make = () => {
    const database = new Database(options.sql ?? connect());
    return new Participant(database, new Library(database, (sql) => start({ sql })));
  };
  const serve = Deno.serve; // the library's own call is caught later
  serve((request, info) => Participant.admit(request, () => participant ??= make(), info));
}

function connect(): postgres.Sql {
  const url = Deno.env.get("EDGE_WORKER_DB_URL") || Deno.env.get("SUPABASE_DB_URL");
  if (!url) throw new Error("neither EDGE_WORKER_DB_URL nor SUPABASE_DB_URL is set");
  return postgres(url, { max: 4, prepare: false, connect_timeout: 10, onnotice: () => {} });
}
