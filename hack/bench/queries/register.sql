-- Registers functions ($1) with a debounce ($2), as pgflow has them before the first start.
INSERT INTO pgflow.worker_functions (function_name, debounce)
SELECT name, $2::interval FROM unnest($1::text[]) AS name
