-- instant(given): the time of an operation in microseconds, read once.
-- given: a test's clock, or NULL for the server's.
CREATE FUNCTION instant(given bigint) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;
