-- The start mode alone: pgflow before mid-2026 does not have the column.
UPDATE pgflow.worker_functions
SET start_mode = $2::text,
    updated_at = now()
WHERE function_name = $1::text
