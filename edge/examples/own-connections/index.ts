// The same with connections of one's own, here one alone. Behind a transaction pooler `prepare: false` is needed.
import { EdgeWorker } from "@pgflow/edge-worker";
import { GreetUser } from "../greet-user/flow.ts";
import postgres from "../../postgres.ts";

import { serveWorker } from "../../handshake.ts";
const max = Number(Deno.env.get("MAX_CONNECTIONS") ?? 1);
const sql = postgres(Deno.env.get("SUPABASE_DB_URL")!, { max, prepare: false });
serveWorker(({ sql }) => EdgeWorker.start(GreetUser, { sql }), { sql });
