DROP FUNCTION IF EXISTS pg_temp.conformance() CASCADE
