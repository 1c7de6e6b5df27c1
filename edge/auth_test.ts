import assert from "node:assert/strict";
import { authenticate } from "./auth.ts";

async function statusOf(env: Record<string, string>, authorization?: string): Promise<number> {
  const request = new Request("http://edge/f", { headers: authorization === undefined ? {} : { authorization } });
  const refusal = await authenticate(request, { get: (name) => env[name] });
  return refusal ? refusal.status : 200;
}

const cases: [string, number, Record<string, string>, string?][] = [
  ["the secret", 200, { PGFLOW_AUTH_SECRET: "s" }, "Bearer s"],
  ["no header", 401, { PGFLOW_AUTH_SECRET: "s" }],
  ["no scheme", 401, { PGFLOW_AUTH_SECRET: "s" }, "s"],
  ["another scheme", 401, { PGFLOW_AUTH_SECRET: "s" }, "bearer s"],
  ["a longer key", 401, { PGFLOW_AUTH_SECRET: "s" }, "Bearer ss"],
  ["a shorter key", 401, { PGFLOW_AUTH_SECRET: "ss" }, "Bearer s"],
  ["the service role key", 200, { SUPABASE_SERVICE_ROLE_KEY: "s" }, "Bearer s"],
  [
    "the service role key beside a secret",
    401,
    { PGFLOW_AUTH_SECRET: "x", SUPABASE_SERVICE_ROLE_KEY: "s" },
    "Bearer s",
  ],
  ["an empty secret counts as none", 200, { PGFLOW_AUTH_SECRET: "", SUPABASE_SERVICE_ROLE_KEY: "s" }, "Bearer s"],
  ["no key at all", 500, {}, "Bearer "],
  ["local mode", 200, { SUPABASE_URL: "http://kong:8000" }],
  ["local mode switched off", 401, {
    SUPABASE_URL: "http://kong:8000",
    PGFLOW_LOCAL_MODE: "off",
    PGFLOW_AUTH_SECRET: "s",
  }],
  ["kong at another port", 401, { SUPABASE_URL: "http://kong:8001", PGFLOW_AUTH_SECRET: "s" }],
  ["a host that begins like it", 401, { SUPABASE_URL: "http://kong:8000.example.org", PGFLOW_AUTH_SECRET: "s" }],
];

for (const [name, status, env, authorization] of cases) {
  Deno.test(`authentication: ${name}: ${status}`, async () => assert.equal(await statusOf(env, authorization), status));
}
