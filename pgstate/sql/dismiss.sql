-- Store.Dismiss.
SELECT pgflow.dismiss_invocation($1::text, $2::uuid, $3::text)
