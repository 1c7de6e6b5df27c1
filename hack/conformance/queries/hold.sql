SELECT FROM pgflow.worker_functions WHERE function_name = $1::text FOR UPDATE
