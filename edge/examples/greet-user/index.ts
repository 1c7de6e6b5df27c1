// A worker function that takes part in the start-up handshake. Without, its last line was: EdgeWorker.start(GreetUser);
import { EdgeWorker } from "@pgflow/edge-worker";
import { GreetUser } from "./flow.ts";

import { serveWorker } from "../../handshake.ts";
serveWorker(({ sql }) => EdgeWorker.start(GreetUser, { sql }));
