SELECT pg_advisory_unlock(pg_backend_pid(), 1)
