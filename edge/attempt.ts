/** One start of the library, from an invocation's `start` verdict to its outcome. */

/** How a start ended. `refused`: the database said no, or the invocation ran out first; ask it for the reason. */
export type Outcome =
  | { kind: "accepted"; workerId: string }
  | { kind: "refused" }
  | { kind: "failed"; reason: string };

/** Its first outcome counts. */
export class Attempt {
  /** The row that the library has registered, while it may still fail. */
  admitted: string | undefined;
  readonly #outcome = Promise.withResolvers<Outcome>();
  #settled = false;

  constructor(readonly functionName: string, readonly invocationId: string) {}

  get settled(): boolean {
    return this.#settled;
  }

  get outcome(): Promise<Outcome> {
    return this.#outcome.promise;
  }

  accept(workerId: string): void {
    this.#settle({ kind: "accepted", workerId });
  }

  refuse(): void {
    this.#settle({ kind: "refused" });
  }

  fail(error: unknown): void {
    this.#settle({ kind: "failed", reason: error instanceof Error ? error.message : String(error) });
  }

  #settle(outcome: Outcome): void {
    this.#settled = true;
    this.#outcome.resolve(outcome);
  }
}
