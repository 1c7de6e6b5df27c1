-- Initialisation has failed.
SELECT dismissed FROM pgflow.dismiss_invocation($1::text, $2::uuid, $3::text)
