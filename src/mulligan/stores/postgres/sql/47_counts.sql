-- counts(given, recent): all that was counted, ever and recently (NULL if nothing was).
CREATE FUNCTION counts(given bigint, recent bigint)
RETURNS TABLE (queue text, region text, name text, ever float8, lately float8)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT t.queue, t.region, t.name, t.value, (
        SELECT sum(s.value) FROM slot s
        WHERE s.queue = t.queue AND s.region = t.region AND s.name = t.name
          AND s.start >= (SELECT instant(given)) - recent
    ) FROM tally t
$$;
