-- From 0.15: overwrites the start mode.
SELECT pgflow.track_worker_function($1::text, 'http')
