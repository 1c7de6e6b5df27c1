-- Store.CreateRegistration, first half: the columns' own defaults.
INSERT INTO pgflow.worker_functions (function_name)
VALUES ($1::text)
ON CONFLICT (function_name) DO NOTHING
