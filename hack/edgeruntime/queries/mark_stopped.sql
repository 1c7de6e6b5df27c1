-- beforeunload.
SELECT pgflow.mark_worker_stopped($1::uuid)
