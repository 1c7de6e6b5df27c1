/** A postgres.js instance whose statements can be answered by somebody else. */
import type postgres from "./postgres.ts";

/** Sends a statement as it is. */
export type Send = (strings: readonly string[], values: readonly unknown[]) => Promise<Rows>;
export type Rows = postgres.RowList<postgres.Row[]>;

export interface Interceptor {
  /** Says who answers a statement: undefined sends it. Called when it is written, not when it is sent. */
  answer(strings: readonly string[], values: readonly unknown[], send: Send): (() => Promise<unknown>) | undefined;
  /** Says what becomes of the failure of a statement that was sent: again sends it once more. */
  failed(error: unknown, again: () => Promise<unknown>): Promise<unknown>;
  /** The values with which a statement is sent that is left alone. */
  translate(values: readonly unknown[]): unknown[];
  /** Throws where a statement must not be sent as text or in a transaction. */
  guard(strings: readonly string[]): void;
}

/** A postgres.js query is sent by its handler when it is first awaited. The rest is what its methods have set. */
interface Query {
  isRaw: unknown;
  options: unknown;
  handler(query: Query): void;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Wraps sql. Transactions and reserved connections are translated and guarded, never answered. */
export function intercepted(sql: postgres.Sql, interceptor: Interceptor): postgres.Sql {
  return wrap(sql, interceptor, true);
}

function wrap<T extends object>(sql: T, interceptor: Interceptor, answering: boolean): T {
  const send: Send = (strings, values) => Reflect.apply(sql as never, undefined, [strings, ...values]);
  return new Proxy(sql, {
    apply(_, self, args) {
      const [strings, ...values] = args;
      if (!Array.isArray(strings?.raw)) return Reflect.apply(sql as never, self, args); // an identifier or a helper
      if (!answering) {
        interceptor.guard(strings);
        return send(strings, interceptor.translate(values));
      }
      const query = send(strings, interceptor.translate(values)) as unknown as Query;
      if (typeof query.handler !== "function") throw new TypeError("this version of postgres.js is not supported");
      const answer = interceptor.answer(strings, values, send);
      if (answer) {
        query.handler = () => void answer().then(query.resolve, query.reject);
        return query;
      }
      const again = () => {
        const next = send(strings, interceptor.translate(values));
        return Object.assign(next, { isRaw: query.isRaw, options: query.options });
      };
      const { reject } = query;
      query.reject = (error) => void interceptor.failed(error, again).then(query.resolve, reject);
      return query;
    },
    get(_, name) {
      // deno-lint-ignore no-explicit-any -- postgres.js has many overloads of each
      const member: any = Reflect.get(sql, name);
      switch (name) {
        case "unsafe":
          return (text: string, values?: unknown[], ...rest: unknown[]) => {
            interceptor.guard([text]);
            return member(text, values && interceptor.translate(values), ...rest);
          };
        case "begin":
        case "savepoint":
          return (...args: unknown[]) => {
            const body = args.pop() as (transaction: object) => unknown;
            return member(...args, (transaction: object) => body(wrap(transaction, interceptor, false)));
          };
        case "reserve":
          return async () => wrap(await member(), interceptor, false);
      }
      return member;
    },
  });
}
