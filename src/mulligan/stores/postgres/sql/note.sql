-- note(given, key, value, keep): keep a value for so many microseconds; NULL forgets it.
CREATE FUNCTION note(given bigint, in_key text, in_value bytea, keep bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF in_value IS NULL THEN
        DELETE FROM note WHERE key = in_key;
    ELSE
        INSERT INTO note (key, value, until) VALUES (in_key, in_value, instant(given) + keep)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until;
    END IF;
END
$$;

-- notes(given, prefix): the values kept under keys that begin so, by key. They stand together in
-- the order of bytes, before the prefix with the last of all characters behind it.
CREATE FUNCTION notes(given bigint, prefix text) RETURNS TABLE (key text, value bytea)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT n.key, n.value FROM note n
    WHERE n.key >= prefix AND n.key < prefix || chr(1114111)
      AND n.until > (SELECT instant(given))
    ORDER BY n.key
$$;
