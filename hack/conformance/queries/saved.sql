-- The registration, with whatever columns this version of pgflow has.
SELECT to_jsonb(f)::text FROM pgflow.worker_functions f WHERE f.function_name = $1::text
