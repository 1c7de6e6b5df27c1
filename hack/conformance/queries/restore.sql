INSERT INTO pgflow.worker_functions
SELECT * FROM jsonb_populate_record(NULL::pgflow.worker_functions, $1::text::jsonb)
