import assert from "node:assert/strict";
import { kindOf, parseRegistration } from "./statements.ts";

/** The text and the values of a tagged template. */
const tagged = (strings: TemplateStringsArray, ...values: unknown[]) => ({ strings, values });

Deno.test("statements are told apart", () => {
  const kinds = {
    "INSERT INTO pgflow.workers (queue_name) VALUES (1)": "register",
    'insert\n into "pgflow"."workers"(queue_name) values (1)': "register",
    "WITH x AS (INSERT INTO pgflow.workers DEFAULT VALUES RETURNING *) SELECT FROM x": "register",
    "INSERT INTO pgflow.workers_archive (queue_name) VALUES (1)": "other",
    "INSERT INTO pgflow.worker_functions (function_name) VALUES (1)": "other",
    "UPDATE pgflow.workers SET last_heartbeat_at = now() WHERE worker_id = $": "heartbeat",
    '\n update "pgflow"."workers" as w set last_heartbeat_at = clock_timestamp()': "heartbeat",
    "UPDATE pgflow.workers SET deprecated_at = now()": "other",
    "SELECT last_heartbeat_at FROM pgflow.workers": "other",
    "SELECT pgflow.mark_worker_stopped($::uuid)": "stop",
    "SELECT pgflow.track_worker_function($)": "other",
  };
  for (const [text, kind] of Object.entries(kinds)) assert.equal(kindOf([text]), kind, text);
});

Deno.test("a registration is taken apart by its columns, and carries an invocation", () => {
  const { strings, values } = tagged`
    INSERT INTO "pgflow".workers ("function_name", worker_id, queue_name) VALUES (${"f"}, ${"w"}::uuid, ${"q"})
    RETURNING *`;
  const registration = parseRegistration(strings, values);
  assert.deepEqual([registration.functionName, registration.workerId, registration.queueName], ["f", "w", "q"]);
  const carrying = registration.carrying("i", "other");
  assert.equal(
    carrying.strings.join("$").replace(/\s+/g, " ").trim(),
    `INSERT INTO "pgflow".workers (invocation_id, "function_name", worker_id, queue_name) ` +
      `VALUES ($::uuid, $, $::uuid, $) RETURNING *`,
  );
  assert.deepEqual(carrying.values, ["i", "f", "other", "q"]);
  assert.equal(carrying.strings.length, carrying.values.length + 1);
});

Deno.test("a registration of another shape is refused", () => {
  for (
    const { strings, values } of [
      tagged`INSERT INTO pgflow.workers ${{}}`,
      tagged`INSERT INTO pgflow.workers (queue_name, worker_id) VALUES (${"q"}, ${"w"})`,
      tagged`INSERT INTO pgflow.workers (queue_name, worker_id, function_name) VALUES (${"q"}, ${1}, ${"f"})`,
      tagged`INSERT INTO pgflow.workers (queue_name, worker_id, function_name) VALUES ('q', ${"w"}, ${"f"})`,
      tagged`INSERT INTO pgflow.workers (queue_name, worker_id, function_name) SELECT ${"q"}, ${"w"}, ${"f"}`,
    ]
  ) assert.throws(() => parseRegistration(strings, values), /not the INSERT/, strings.join("$"));
});
