SELECT pg_advisory_lock(pg_backend_pid(), 1)
