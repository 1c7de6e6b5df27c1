-- Up to 0.14: the call with one argument.
SELECT pgflow.track_worker_function($1::text)
