import assert from "node:assert/strict";
import { captureHandler } from "./capture.ts";
import { intercepted, type Interceptor } from "./intercept.ts";
import { kindOf } from "./statements.ts";
import postgres from "./postgres.ts";

const url = Deno.env.get("DATABASE_URL");
if (!url) throw new Error("DATABASE_URL must name a migrated database; run these with: go test ./edge");
const raw = postgres(url, { max: 2, prepare: false, onnotice: () => {} });

/** Refuses registrations that it cannot answer, and puts "new" in the place of "old". */
function interceptor(change: Partial<Interceptor> = {}): Interceptor {
  return {
    answer: () => undefined,
    failed: (error) => Promise.reject(error),
    translate: (values) => values.map((value) => value === "old" ? "new" : value),
    guard: (strings) => {
      if (kindOf(strings) === "register") throw new Error("guarded");
    },
    ...change,
  };
}

function test(name: string, hold: (sql: postgres.Sql) => Promise<void>, change?: Partial<Interceptor>) {
  const fn = () => hold(intercepted(raw, interceptor(change)));
  Deno.test({ name, fn, sanitizeOps: false, sanitizeResources: false });
}

const insert =
  "INSERT INTO pgflow.workers (queue_name, worker_id, function_name) VALUES ('q', gen_random_uuid(), 'guarded')";

test("values are translated, in fragments, text and transactions too", async (sql) => {
  assert.equal((await sql`SELECT ${"old"}::text AS v`)[0].v, "new");
  assert.equal((await sql`SELECT ${sql`${"old"}::text`} AS v`)[0].v, "new");
  assert.equal((await sql.unsafe("SELECT $1::text AS v", ["old"]))[0].v, "new");
  assert.equal((await sql.begin((tx) => tx`SELECT ${"old"}::text AS v`))[0].v, "new");
  assert.equal((await sql.begin((tx) => tx.savepoint((sp) => sp`SELECT ${"old"}::text AS v`)))[0].v, "new");
  const reserved = await sql.reserve();
  assert.equal((await reserved`SELECT ${"old"}::text AS v`)[0].v, "new");
  reserved.release();
});

test("a registration as text or in a transaction does not get out", async (sql) => {
  assert.throws(() => sql.unsafe(insert), /guarded/);
  await assert.rejects(
    sql.begin((tx) =>
      tx`INSERT INTO pgflow.workers (queue_name, worker_id, function_name) VALUES ('q', gen_random_uuid(), 'guarded')`
    ),
    /guarded/,
  );
  await assert.rejects(sql.begin((tx) => tx.unsafe(insert)), /guarded/);
  assert.equal((await raw`SELECT FROM pgflow.workers WHERE function_name = 'guarded'`).length, 0);
});

test("a statement that is answered is not sent, however it is awaited", async (sql) => {
  const answered = () => sql`SELECT 1 / 0`;
  assert.deepEqual(await answered(), ["answer"]);
  assert.deepEqual(await answered().execute(), ["answer"]);
  assert.deepEqual(await answered().catch(() => "failed"), ["answer"]);
}, { answer: () => () => Promise.resolve(["answer"]) });

test("identifiers, helpers and the form of results stay as they are", async (sql) => {
  const rows = await sql`SELECT ${1}::integer AS ${sql("a")}, ${sql.json({ b: 1 })}::jsonb -> 'b'`.values();
  assert.deepEqual([...rows], [[1, 1]]);
  assert.equal((await sql`SELECT * FROM (VALUES (1), (2)) AS v (n) WHERE n IN ${sql([2])}`)[0].n, 2);
});

let tries = 0;
test("a statement that failed can be sent once more, in the same form", async (sql) => {
  const rows = await sql`SELECT last_value::integer FROM intercepted WHERE ${true}`.values();
  assert.deepEqual([...rows], [[1]]);
  assert.equal(tries, 1);
}, {
  failed: async (_, again) => {
    tries++;
    await raw.unsafe("CREATE SEQUENCE intercepted");
    return await again();
  },
});

Deno.test("the handler is caught in each form of Deno.serve, which is put back", async () => {
  const serve = Deno.serve;
  const handler = () => new Response();
  // deno-lint-ignore no-explicit-any -- all overloads
  const forms: any[][] = [[handler], [{}, handler], [{ port: 1, handler }]];
  for (const form of forms) {
    // deno-lint-ignore no-explicit-any -- as above
    assert.equal(await captureHandler(() => (Deno.serve as any)(...form)), handler);
    assert.equal(Deno.serve, serve);
  }
});

Deno.test("a start that fails or serves nothing says so, and Deno.serve is put back", async () => {
  const serve = Deno.serve;
  await assert.rejects(captureHandler(() => Promise.reject(new Error("no flow"))), /no flow/);
  await assert.rejects(captureHandler(() => Promise.resolve()), /did not call Deno.serve/);
  assert.equal(Deno.serve, serve);
});
