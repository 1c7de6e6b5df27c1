/** The contract's operations, each with a deadline, asked again when its answer was lost. */
import type postgres from "./postgres.ts";

/** What receive_invocation and accept_invocation say. */
export interface Receipt {
  verdict: "start" | "accepted" | "acknowledged" | "rejected";
  reason: string | null;
  readyWorkerId: string | null;
  /** Of `start`: how long the invocation is still valid, by the database's clock. */
  remainingMs: number | null;
}

export interface Reservation {
  decision: "unknown" | "process" | "disabled" | "ready" | "pending" | "throttled" | "reserved";
  invocationId: string | null;
  readyWorkerId: string | null;
  remainingMs: number | null;
}

/** A statement's longest time, waiting for a connection included. */
const statementDeadlineMs = 10_000;
/** How often an operation is asked whose answer was lost or that met a lock timeout, and the pause between. */
const attempts = 5;
const pauseMs = 200;

/** Safe for concurrent use, also with one connection. All methods reject with the operation's name in the error. */
export class Database {
  constructor(readonly sql: postgres.Sql) {}

  /** A null invocation is `unknown`; it still counts as the heartbeat of the worker. */
  async receive(functionName: string, invocationId: string | null, workerId: string | null): Promise<Receipt> {
    const [row] = await again("receive_invocation", () =>
      this.sql<Receipt[]>`
      SELECT verdict, reason, ready_worker_id AS "readyWorkerId",
        (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::float8 AS "remainingMs"
      FROM pgflow.receive_invocation(${functionName}::text, ${invocationId}::uuid, ${workerId}::uuid)`);
    return row;
  }

  async accept(functionName: string, invocationId: string, workerId: string, queueName: string): Promise<Receipt> {
    const [row] = await again("accept_invocation", () =>
      this.sql<Receipt[]>`
      SELECT verdict, reason, ready_worker_id AS "readyWorkerId", NULL::float8 AS "remainingMs"
      FROM pgflow.accept_invocation(
        ${functionName}::text, ${invocationId}::uuid, ${workerId}::uuid, ${queueName}::text)`);
    return row;
  }

  /** Asked again after a lost answer it says `pending`, which is right: nobody knows whose reservation that is. */
  async reserve(functionName: string): Promise<Reservation> {
    const [row] = await again("reserve_invocation", () =>
      this.sql<Reservation[]>`
      SELECT decision, invocation_id AS "invocationId", ready_worker_id AS "readyWorkerId",
        (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::float8 AS "remainingMs"
      FROM pgflow.reserve_invocation(${functionName}::text)`);
    return row;
  }

  async dismiss(functionName: string, invocationId: string, reason: string): Promise<void> {
    await again("dismiss_invocation", () =>
      this.sql`
      SELECT dismissed FROM pgflow.dismiss_invocation(${functionName}::text, ${invocationId}::uuid, ${reason}::text)`);
  }

  /** Registers a function that has none, as started over HTTP: the default where pgflow has start modes. */
  async track(functionName: string): Promise<void> {
    await again("track_worker_function", () =>
      this.sql`
      SELECT pgflow.track_worker_function(${functionName}::text)`);
  }

  async markStopped(workerId: string): Promise<void> {
    await again("mark_worker_stopped", () =>
      this.sql`
      SELECT pgflow.mark_worker_stopped(${workerId}::uuid)`);
  }

  /** The row of a worker, as its registration would have returned it. */
  worker(workerId: string): Promise<postgres.RowList<postgres.Row[]>> {
    return again(
      "reading the worker",
      () => this.sql`SELECT * FROM pgflow.workers WHERE worker_id = ${workerId}::uuid`,
    );
  }
}

async function again<T>(
  what: string,
  query: () => postgres.PendingQuery<T & (postgres.Row | undefined)[]>,
): Promise<T> {
  for (let attempt = 1;; attempt++) {
    try {
      return await within(what, query()) as T;
    } catch (error) {
      if (attempt === attempts || !worthAsking(error)) throw error;
      await new Promise((done) => setTimeout(done, pauseMs));
    }
  }
}

/** Bounds a statement's time; what it still does afterwards is nobody's business. */
export async function within<T>(what: string, query: Promise<T> & { cancel(): void }): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`${what}: no answer within the statement deadline of ${statementDeadlineMs} ms`));
      query.cancel();
    }, statementDeadlineMs);
  });
  try {
    return await Promise.race([query, late]);
  } catch (error) {
    if (error instanceof Error && !error.message.startsWith(what)) error.message = `${what}: ${error.message}`;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** The SQLSTATE of an error that is the database's own answer. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof Error && error.name === "PostgresError" ? (error as postgres.PostgresError).code : undefined;
}

/** A lock timeout, a server that goes down, and whatever is not the database's own answer. */
export function worthAsking(error: unknown): boolean {
  const state = sqlState(error);
  return state === undefined || state === "55P03" || state.startsWith("57P") || state.startsWith("08");
}
