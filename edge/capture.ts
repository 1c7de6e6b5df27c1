/** Catches the handler that the worker library passes to `Deno.serve`. */

export type Handler = (request: Request, info: Deno.ServeHandlerInfo) => Response | Promise<Response>;

/**
 * Runs start until something calls `Deno.serve`, and returns the handler it was given; nothing is served. Rejects when
 * start fails or ends without.
 */
export async function captureHandler(start: () => unknown): Promise<Handler> {
  const captured = Promise.withResolvers<Handler>();
  const serve = Deno.serve;
  const replace = (f: unknown) =>
    Object.defineProperty(Deno, "serve", { value: f, writable: true, configurable: true });
  replace((...args: unknown[]) => {
    const handler = args.flatMap((arg) => [arg, (arg as { handler?: unknown } | null)?.handler])
      .find((candidate) => typeof candidate === "function");
    if (!handler) throw new TypeError("Deno.serve was called without a handler");
    captured.resolve(handler as Handler);
    return servedByNobody;
  });
  try {
    const started = Promise.resolve().then(start);
    return await Promise.race([
      captured.promise,
      started.then(() => {
        throw new Error("the worker library did not call Deno.serve");
      }),
    ]);
  } finally {
    replace(serve);
  }
}

/** What the library gets in place of a server. */
const servedByNobody = {
  addr: { transport: "tcp", hostname: "127.0.0.1", port: 0 },
  finished: new Promise<void>(() => {}),
  shutdown: () => Promise.resolve(),
  ref() {},
  unref() {},
  [Symbol.asyncDispose]: () => Promise.resolve(),
};
