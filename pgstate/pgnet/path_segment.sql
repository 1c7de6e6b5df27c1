-- A function's name as one path segment of a URL, every byte but RFC 3986's unreserved ones escaped. Null: it cannot be
-- one, also not behind gateways that unescape before they route (%2F..%2F would leave the functions' prefix, and take
-- the key along).
CREATE OR REPLACE FUNCTION pgflow.handshake_path_segment(function_name text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $segment$
    SELECT CASE
        WHEN $1 = '' OR $1 ~ '[\u0001-\u001f\u007f-\u009f]' OR $1 ~ '(^|[/\\])\.{1,2}([/\\]|$)' THEN NULL
        WHEN $1 COLLATE "C" ~ '^[A-Za-z0-9._~-]+$' THEN $1
        ELSE (
            SELECT string_agg(
                CASE WHEN octet < 128 AND chr(octet) COLLATE "C" ~ '[A-Za-z0-9._~-]' THEN chr(octet)
                     ELSE '%' || upper(lpad(to_hex(octet), 2, '0')) END,
                '' ORDER BY i)
            FROM (
                SELECT i, get_byte(convert_to($1, 'UTF8'), i) AS octet
                FROM generate_series(0, length(convert_to($1, 'UTF8')) - 1) i
            ) octets
        )
    END
$segment$;
