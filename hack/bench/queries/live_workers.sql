-- Workers that live: pgflow's own notion, with the heartbeat_timeout that registrations have by default.
SELECT count(*)
FROM pgflow.workers
WHERE stopped_at IS NULL
  AND deprecated_at IS NULL
  AND last_heartbeat_at > now() - interval '30 seconds'
