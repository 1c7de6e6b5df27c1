-- Store.ClearThrottle.
SELECT pgflow.clear_throttle($1::text)
