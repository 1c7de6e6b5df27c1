/**
 * Hosts the worker library: starts it, gives its registration an invocation, and keeps its loop in step with its row.
 *
 * There are two generations, told apart by behaviour: one registers while its handler is still at work (from 0.15), the
 * other in the background, after its handler has answered (up to 0.14). The first can be told of any failure, since it
 * can be asked again. The second must never hear of one: its start-up happens once per process, and so does its loop. What
 * it waits for when something fails, a statement's answer, comes only when there is another invocation:
 *
 *     up to 0.14   a refused registration, a failed statement of the start-up, a deprecated or deleted row: held
 *     from 0.15    passed on: the library answers 500 or ends its loop, and begins again when asked
 *
 * A held loop that goes on, and a loop whose row no longer counts without its knowing, gets a new row; its own worker id
 * is translated into that row's in every statement from then on.
 */
import type { Attempt } from "./attempt.ts";
import { captureHandler, type Handler } from "./capture.ts";
import { type Database, sqlState, within, worthAsking } from "./database.ts";
import { intercepted, type Interceptor, type Rows, type Send } from "./intercept.ts";
import { kindOf, parseRegistration, type Registration } from "./statements.ts";
import type postgres from "./postgres.ts";

/** A loop of the library that was admitted. */
interface Loop {
  registration: Registration;
  /** Its row; the library's own worker id unless it had to be another. */
  rowId: string;
  background: boolean;
  /** The library was told to end it. */
  ending: boolean;
}

/** How long an isolate lives on that cannot start its library again: long enough for the answer to be read. */
const crashDelayMs = 500;

export class Library implements Interceptor {
  readonly #sql: postgres.Sql;
  #handler: Handler | undefined;
  /** The first failure to get that far: later ones would only say that there was an earlier. */
  #startError: unknown;
  /** The library's handler at work. */
  #call: Promise<Response> | undefined;
  #attempt: Attempt | undefined;
  #loop: Loop | undefined;
  /** Lets what is held go on. */
  #held: PromiseWithResolvers<void> | undefined;
  /** Rows by the library's worker ids, of all loops that were ever admitted here. */
  readonly #rows = new Map<string, string>();
  /** Why the library cannot start again: it has failed by itself, in the background. */
  #dead: string | undefined;
  /** What may have ended the loop: an error that nobody handled, since the library's last statement. */
  #suspicion: string | undefined;

  constructor(readonly database: Database, readonly begin: (sql: postgres.Sql) => unknown) {
    this.#sql = intercepted(database.sql, this);
    addEventListener("unhandledrejection", (event) => this.#rejected(event));
  }

  /** The row of the worker whose loop runs here. A loop that may be dead is not named: that would keep its row alive. */
  get running(): string | null {
    return this.#loop && !this.#loop.ending && !this.#suspicion ? this.#loop.rowId : null;
  }

  /** Starts the library, or has its running loop admitted anew. Rejects never; the outcome is the attempt's. */
  async start(attempt: Attempt, request: Request, info: Deno.ServeHandlerInfo): Promise<void> {
    this.#attempt = attempt;
    try {
      await this.#drive(attempt, request, info);
    } catch (error) {
      attempt.fail(error);
    }
  }

  async #drive(attempt: Attempt, request: Request, info: Deno.ServeHandlerInfo): Promise<void> {
    if (this.running) return await this.#readmit(this.#loop!, attempt);
    const dead = this.#dead ?? (this.#loop?.background && this.#suspicion);
    if (dead) return attempt.fail(dead);
    if (this.#held) {
      this.#held.resolve();
      this.#held = undefined;
      return;
    }
    this.#handler ??= await this.#capture();
    while (!attempt.settled) {
      if (this.#call) { // a start-up that has outlived its invocation: this one takes its place
        await this.#call.catch(() => {});
        continue;
      }
      this.#call = Promise.resolve(this.#handler(request, info)).finally(() => this.#call = undefined);
      const response = await this.#call;
      if (!response.ok) return await this.#refusedByLibrary(attempt, response);
      if (attempt.admitted) return attempt.accept(attempt.admitted);
      const { status } = await response.json();
      if (status === "started" || !this.#loop) return; // in the background; its registration takes the attempt
      return attempt.fail("the worker library has not yet ended its last worker");
    }
  }

  async #capture(): Promise<Handler> {
    try {
      return await captureHandler(() => this.begin(this.#sql));
    } catch (error) {
      throw this.#startError ??= error;
    }
  }

  async #refusedByLibrary(attempt: Attempt, response: Response): Promise<void> {
    const body = await response.json().catch(() => ({}));
    attempt.fail(body.message ?? body.error ?? `the worker library answered ${response.status}`);
    if (attempt.admitted) { // it failed after it had registered
      if (this.#loop) this.#loop.ending = true;
      await this.database.markStopped(attempt.admitted);
    }
  }

  /** The same loop under a new row. */
  async #readmit(loop: Loop, attempt: Attempt): Promise<void> {
    const rowId = crypto.randomUUID();
    const { functionName, queueName, workerId } = loop.registration;
    const { verdict } = await this.database.accept(functionName, attempt.invocationId, rowId, queueName);
    if (verdict !== "accepted") return attempt.refuse();
    loop.rowId = rowId;
    this.#rows.set(workerId, rowId);
    attempt.accept(rowId);
    this.#held?.resolve();
    this.#held = undefined;
  }

  /** Waits for the next attempt. */
  #hold(): Promise<void> {
    this.#held ??= Promise.withResolvers<void>();
    return this.#held.promise;
  }

  // ---------------------------------------------------------------------------------------------------------------------
  // The library's statements

  answer(strings: readonly string[], values: readonly unknown[], send: Send): (() => Promise<unknown>) | undefined {
    const loop = this.#loop;
    this.#suspicion = undefined;
    switch (kindOf(strings)) {
      case "register":
        return () => this.#register(strings, values, send);
      case "heartbeat":
        return loop && values.includes(loop.registration.workerId)
          ? () => this.#heartbeat(loop, strings, values, send)
          : undefined;
      case "stop":
        return () => this.#stop(strings, values, send);
    }
  }

  /** Holds the failures of a start-up in the background. */
  async failed(error: unknown, again: () => Promise<unknown>): Promise<unknown> {
    for (;;) {
      const attempt = this.#attempt;
      if (this.#loop || this.#call || !attempt) throw error;
      attempt.fail(error);
      await this.#next(attempt);
      try {
        return await again();
      } catch (another) {
        error = another;
      }
    }
  }

  translate(values: readonly unknown[]): unknown[] {
    return values.map((value) => this.#rows.get(value as string) ?? value);
  }

  guard(strings: readonly string[]): void {
    if (kindOf(strings) === "register") throw new Error("a worker may register in a statement of its own alone");
  }

  async #register(strings: readonly string[], values: readonly unknown[], send: Send): Promise<Rows> {
    for (;;) {
      const attempt = this.#attempt!;
      const background = !this.#call;
      try {
        const registration = parseRegistration(strings, values);
        const [rowId, rows] = await this.#admit(registration, attempt, send);
        this.#rows.set(registration.workerId, rowId);
        this.#loop = { registration, rowId, background, ending: false };
        attempt.admitted = rowId;
        if (background) attempt.accept(rowId);
        // The library goes on with the id that it knows.
        return Object.assign(rows, rows.map((row) => ({ ...row, worker_id: registration.workerId })));
      } catch (error) {
        if (sqlState(error) === "PF001") attempt.refuse();
        else attempt.fail(error);
        if (!background) throw error;
        await this.#next(attempt);
      }
    }
  }

  /** Sends the registration with the attempt's invocation. */
  async #admit(registration: Registration, attempt: Attempt, send: Send): Promise<[string, Rows]> {
    let rowId = registration.workerId;
    const insert = () => {
      const { strings, values } = registration.carrying(attempt.invocationId, rowId);
      return within("registering the worker", send(strings, values) as Promise<Rows> & { cancel(): void });
    };
    try {
      return [rowId, await insert()];
    } catch (error) {
      if (sqlState(error) === "23505") { // another runtime goes by the same id: its row is not ours
        rowId = crypto.randomUUID();
        return [rowId, await insert()];
      }
      if (!worthAsking(error)) throw error;
      // The row may be there, and only the answer lost. This operation says the same again.
      const { verdict } = await this.database.accept(
        registration.functionName,
        attempt.invocationId,
        rowId,
        registration.queueName,
      );
      if (verdict !== "accepted") {
        attempt.refuse();
        throw error;
      }
      return [rowId, await this.database.worker(rowId)];
    }
  }

  /** Waits for another attempt than this one, which may be there already. */
  async #next(attempt: Attempt): Promise<void> {
    if (this.#attempt === attempt) await this.#hold();
  }

  async #heartbeat(loop: Loop, strings: readonly string[], values: readonly unknown[], send: Send): Promise<Rows> {
    for (;;) {
      const rowId = loop.rowId;
      const rows = await send(strings, this.translate(values));
      const deprecated = rows.some((row) => Object.values(row).includes(true));
      if (loop.rowId !== rowId) continue; // admitted anew in the meantime
      if (rows.length > 0 && !deprecated) return rows;
      if (loop.background) {
        await this.#hold();
        continue;
      }
      loop.ending = true;
      if (deprecated) return rows;
      // Some versions take no notice when their row is gone; all do of a deprecated one.
      const gone = Object.fromEntries(rows.columns.map(({ name }) => [name, true]));
      return Object.assign(rows, [gone], { count: 1 });
    }
  }

  async #stop(strings: readonly string[], values: readonly unknown[], send: Send): Promise<unknown> {
    if (!values.some((value) => this.#rows.has(value as string))) return []; // never admitted: the row is another's
    if (this.#loop && values.includes(this.#loop.registration.workerId)) this.#loop.ending = true;
    return await send(strings, this.translate(values));
  }

  /** An error that nobody handles: of a start-up in the background, of the loop, or of the function's own code. */
  #rejected(event: PromiseRejectionEvent): void {
    const error = event.reason;
    const reason = error instanceof Error ? error.message : String(error);
    if (this.#loop) {
      this.#suspicion = reason; // and left to the runtime
      return;
    }
    if (this.#call || !this.#handler || !this.#attempt || this.#held) return;
    event.preventDefault();
    this.#dead = reason;
    this.#attempt.fail(error);
    // Left to itself it would have ended the isolate at once. It ends a little later, so that the invocation is dismissed
    // and the request answered, and the next request gets a fresh one.
    setTimeout(() => {
      throw error;
    }, crashDelayMs);
  }
}
