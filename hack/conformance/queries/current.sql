SELECT invocation_id, invocation_expires_at > clock_timestamp(), coalesce(last_outcome, ''),
    coalesce(last_outcome_reason, '')
FROM pgflow.worker_functions WHERE function_name = $1::text
