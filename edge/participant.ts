/** What a request leads to, by the contract. */
import { Attempt } from "./attempt.ts";
import { authenticate } from "./auth.ts";
import type { Database, Receipt } from "./database.ts";
import type { Library } from "./library.ts";

/** Carries the invocation's id. A request without it goes by the door for direct calls. */
export const invocationHeader = "x-pgflow-invocation-id";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** How much longer than its invocation a start is waited for: the database's refusal is the better answer. */
const graceMs = 250;

interface Call {
  request: Request;
  info: Deno.ServeHandlerInfo;
  functionName: string;
}

/** One runtime's part in the handshake. */
export class Participant {
  /** The function that the library was started for. A process serves one. */
  #functionName: string | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #starting: Attempt | undefined;
  #unloaded = false;

  constructor(readonly database: Database, readonly library: Library) {
    addEventListener("beforeunload", () => void this.#unload());
  }

  /** Authenticates a request, then hands it to the runtime's participant, which is made for the first that passes. */
  static async admit(request: Request, participant: () => Participant, info: Deno.ServeHandlerInfo): Promise<Response> {
    const refusal = await authenticate(request);
    if (refusal) return refusal;
    try {
      return await participant().#handle(request, info);
    } catch (error) {
      return failure(error);
    }
  }

  async #handle(request: Request, info: Deno.ServeHandlerInfo): Promise<Response> {
    const functionName = nameOf(request);
    const invocationId = request.headers.get(invocationHeader);
    if (functionName === "" || (invocationId !== null && !uuid.test(invocationId))) {
      return rejected(functionName, "unknown");
    }
    const call = { request, info, functionName };
    const answered = this.#turn.then(() => {
      if (this.#functionName !== undefined && this.#functionName !== functionName) {
        return rejected(functionName, "unknown");
      }
      return invocationId === null ? this.#direct(call) : this.#invoked(call, invocationId);
    });
    this.#turn = answered.catch(() => {});
    return await answered;
  }

  async #invoked(call: Call, invocationId: string): Promise<Response> {
    const receipt = await this.database.receive(call.functionName, invocationId, this.library.running);
    if (receipt.verdict === "start") return await this.#start(call, invocationId, receipt.remainingMs ?? 0);
    return concluded(call.functionName, receipt);
  }

  /** A request without an id: the runtime reserves for itself and proceeds with its own reservation alone. */
  async #direct(call: Call): Promise<Response> {
    const { functionName } = call;
    // A loop that runs here may be too busy to beat, and must not be doubled either.
    if (this.library.running) await this.database.receive(functionName, null, this.library.running);
    let reservation = await this.database.reserve(functionName);
    if (reservation.decision === "unknown") { // no registration exists before the first start
      await this.database.track(functionName);
      reservation = await this.database.reserve(functionName);
    }
    switch (reservation.decision) {
      case "reserved":
        return await this.#start(call, reservation.invocationId!, reservation.remainingMs ?? 0);
      case "ready":
        return running(functionName, reservation.readyWorkerId, null);
      default:
        return rejected(functionName, reservation.decision);
    }
  }

  async #start(call: Call, invocationId: string, remainingMs: number): Promise<Response> {
    const { functionName } = call;
    this.#functionName ??= functionName;
    const attempt = this.#starting = new Attempt(functionName, invocationId);
    const late = setTimeout(() => attempt.refuse(), remainingMs + graceMs);
    if (this.#unloaded) attempt.fail("unloaded");
    else void this.library.start(attempt, withoutBody(call.request), call.info);
    const outcome = await attempt.outcome;
    clearTimeout(late);
    this.#starting = undefined;
    switch (outcome.kind) {
      case "accepted":
        return answer(200, "started", functionName, "accepted", outcome.workerId, null);
      case "failed":
        await this.database.dismiss(functionName, invocationId, oneLine(outcome.reason));
        return failure(outcome.reason);
      case "refused":
        return concluded(functionName, await this.database.receive(functionName, invocationId, this.library.running));
    }
  }

  /** The isolate is about to end: a start that is under way will not be finished. */
  #unload(): void {
    this.#unloaded = true;
    this.#starting?.fail("unloaded");
  }
}

/** The function's name is the whole request path. */
function nameOf(request: Request): string {
  const path = new URL(request.url).pathname.replace(/^\/+/, "");
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

const withoutBody = (request: Request) =>
  new Request(request.url, { method: request.method, headers: request.headers });

const oneLine = (text: string) => text.replace(/\s+/g, " ").trim().slice(0, 256);

/** Answers for every verdict that starts nothing. */
function concluded(functionName: string, { verdict, reason, readyWorkerId }: Receipt): Response {
  if (verdict === "acknowledged") return running(functionName, readyWorkerId, reason);
  return rejected(functionName, reason ?? verdict);
}

const running = (functionName: string, workerId: string | null, reason: string | null) =>
  answer(200, "running", functionName, "acknowledged", workerId, reason);

const rejected = (functionName: string, reason: string) =>
  answer(409, "rejected", functionName, "rejected", null, reason);

function answer(
  status: number,
  word: "started" | "running" | "rejected",
  functionName: string,
  handshake: "accepted" | "acknowledged" | "rejected",
  workerId: string | null,
  reason: string | null,
): Response {
  return Response.json({
    status: word,
    ...(workerId !== null && { workerId }),
    functionName,
    handshake,
    ...(reason !== null && { reason }),
  }, { status });
}

const failure = (error: unknown) =>
  Response.json({
    error: "Internal Server Error",
    message: oneLine(error instanceof Error ? error.message : String(error)),
  }, { status: 500 });
