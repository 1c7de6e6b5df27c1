/** Recognises the few statements of the worker library that the handshake has to know. */

export type Kind = "register" | "heartbeat" | "stop" | "other";

const workers = String.raw`"?pgflow"?\s*\.\s*"?workers"?`;
const register = new RegExp(String.raw`\binsert\s+into\s+${workers}(?![\w.])`, "i");
const heartbeat = new RegExp(String.raw`^\s*update\s+(?:only\s+)?${workers}\s[\s\S]*\blast_heartbeat_at\b\s*=`, "i");
const stop = /\bmark_worker_stopped\s*\(/i;
const head = new RegExp(String.raw`^(\s*insert\s+into\s+${workers}\s*)\(([^()]*)\)(\s*values\s*)\(`, "i");

/** What a statement is, by its text without parameters. */
export function kindOf(strings: readonly string[]): Kind {
  const text = strings.join("$");
  if (register.test(text)) return "register";
  if (heartbeat.test(text)) return "heartbeat";
  return stop.test(text) ? "stop" : "other";
}

/** The registration of a worker, taken apart. */
export interface Registration {
  workerId: string;
  queueName: string;
  functionName: string;
  /** The same statement with an invocation and, in place of its own, another worker's id. */
  carrying(invocationId: string, workerId: string): { strings: TemplateStringsArray; values: unknown[] };
}

/**
 * Takes a registration apart. Throws where it is not the plain INSERT that the library is known to send: it must not go
 * out without an invocation.
 */
export function parseRegistration(strings: readonly string[], values: readonly unknown[]): Registration {
  const match = head.exec(strings[0]);
  const columns = match?.[2].split(",").map((column) => column.trim().replaceAll('"', "").toLowerCase()) ?? [];
  const named = Object.fromEntries(columns.map((column, i) => [column, values[i]]));
  const { worker_id: workerId, queue_name: queueName, function_name: functionName } = named;
  if (
    !match || columns.length !== values.length || typeof workerId !== "string" || typeof queueName !== "string" ||
    typeof functionName !== "string"
  ) {
    throw new Error("the worker library's registration is not the INSERT that this module knows");
  }
  const position = columns.indexOf("worker_id");
  return {
    workerId,
    queueName,
    functionName,
    carrying(invocationId, id) {
      const [, insert, list, into] = match;
      const cooked = [
        `${insert}(invocation_id, ${list})${into}(`,
        `::uuid, ${strings[0].slice(match[0].length)}`,
        ...strings.slice(1),
      ];
      return {
        strings: Object.assign(cooked, { raw: cooked }),
        values: [invocationId, ...values.toSpliced(position, 1, id)],
      };
    },
  };
}
