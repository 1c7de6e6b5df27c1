/** Who may ask: the published library's own rule, with the keys compared in constant time. */

/** `off` here switches the exception for local mode off, for clusters with a Service named `kong`. */
export const localModeVariable = "PGFLOW_LOCAL_MODE";

type Environment = Pick<Deno.Env, "get">;

/**
 * Authenticates a request: undefined lets it pass, otherwise the answer is 401, or 500 when no key is configured. It
 * looks at nothing but the one header.
 */
export async function authenticate(request: Request, env: Environment = Deno.env): Promise<Response | undefined> {
  if (isLocal(env)) return undefined;
  const key = env.get("PGFLOW_AUTH_SECRET") || env.get("SUPABASE_SERVICE_ROLE_KEY");
  if (!key) {
    return Response.json({
      error: "Internal Server Error",
      message: "neither PGFLOW_AUTH_SECRET nor SUPABASE_SERVICE_ROLE_KEY is set",
    }, { status: 500 });
  }
  const given = request.headers.get("authorization") ?? "";
  if (await equal(given, `Bearer ${key}`)) return undefined;
  return Response.json({ error: "Unauthorized", message: "the key is missing or wrong" }, { status: 401 });
}

function isLocal(env: Environment): boolean {
  if (env.get(localModeVariable) === "off") return false;
  try {
    return new URL(env.get("SUPABASE_URL") ?? "").host === "kong:8000";
  } catch {
    return false; // no URL
  }
}

/** Compares digests, so that neither the place of the first difference nor the length shows in the time it takes. */
async function equal(a: string, b: string): Promise<boolean> {
  const [x, y] = await Promise.all([a, b].map(digest));
  let difference = 0;
  for (let i = 0; i < x.length; i++) difference |= x[i] ^ y[i];
  return difference === 0;
}

const digest = async (text: string) =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
