-- For the statements that take no parameters.
SELECT set_config('conformance.function', $1::text, false)
