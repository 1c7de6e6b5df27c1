-- beforeunload of many workers, in one transaction.
SELECT count(pgflow.mark_worker_stopped(id)) FROM unnest($1::uuid[]) AS id
