DELETE FROM pgflow.workers WHERE function_name = $1::text AND worker_id <> ALL ($2::uuid[])
