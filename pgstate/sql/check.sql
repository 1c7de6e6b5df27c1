-- Check: the newest migration that was applied.
SELECT coalesce(max(version_id), 0)
FROM pgflow.operator_schema_version
WHERE is_applied
