-- count(given, slot, recent, queues, regions, names, values): add to what is counted, ever and in
-- the slot of this moment. Result: the health of each queue and region named.
-- Rows are written in the order of their keys, so that those who count at once cannot deadlock, and
-- without waiting for the disk, so that they hold each other up as little as can be: the counts
-- of the last moments before a crash may be lost, and nothing else.
CREATE FUNCTION count(
    given bigint, slot_length bigint, recent bigint, queues text[], regions text[], names text[],
    amounts float8[]
) RETURNS jsonb
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    now bigint := instant(given);
    named record;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO count_ever AS t (queue, region, name, value)
    SELECT c.queue, c.region, c.name, sum(c.amount)
    FROM unnest(queues, regions, names, amounts) AS c (queue, region, name, amount)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (queue, region, name) DO UPDATE SET value = t.value + excluded.value;
    INSERT INTO count_recent AS s (queue, region, name, start, value)
    SELECT c.queue, c.region, c.name, now / slot_length * slot_length, sum(c.amount)
    FROM unnest(queues, regions, names, amounts) AS c (queue, region, name, amount)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (queue, region, name, start) DO UPDATE SET value = s.value + excluded.value;
    SELECT array_agg(p.queue) AS queues, array_agg(p.region) AS regions INTO named
    FROM (SELECT DISTINCT c.queue, c.region FROM unnest(queues, regions) AS c (queue, region)) p;
    RETURN health(now, recent, named.queues, named.regions);
END
$$;

-- counts(given, recent): all that was counted, ever and recently (NULL if nothing was).
CREATE FUNCTION counts(given bigint, recent bigint)
RETURNS TABLE (queue text, region text, name text, ever float8, lately float8)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT t.queue, t.region, t.name, t.value, (
        SELECT sum(s.value) FROM count_recent s
        WHERE s.queue = t.queue AND s.region = t.region AND s.name = t.name
          AND s.start >= (SELECT instant(given)) - recent
    ) FROM count_ever t
$$;
