-- One run at a time for a function; the lock ends with the session.
SELECT pg_try_advisory_lock(hashtextextended('pgflow conformance ' || $1::text, 0))
