-- Store.Disable. A row that is off already is left as it is.
UPDATE pgflow.worker_functions
SET enabled    = false,
    updated_at = now()
WHERE function_name = $1::text
  AND enabled IS DISTINCT FROM false
