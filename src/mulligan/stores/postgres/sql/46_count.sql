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
    INSERT INTO tally AS t (queue, region, name, value)
    SELECT c.queue, c.region, c.name, sum(c.amount)
    FROM unnest(queues, regions, names, amounts) AS c (queue, region, name, amount)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (queue, region, name) DO UPDATE SET value = t.value + excluded.value;
    INSERT INTO slot AS s (queue, region, name, start, value)
    SELECT c.queue, c.region, c.name, now / slot_length * slot_length, sum(c.amount)
    FROM unnest(queues, regions, names, amounts) AS c (queue, region, name, amount)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (queue, region, name, start) DO UPDATE SET value = s.value + excluded.value;
    SELECT array_agg(p.queue) AS queues, array_agg(p.region) AS regions INTO named
    FROM (SELECT DISTINCT c.queue, c.region FROM unnest(queues, regions) AS c (queue, region)) p;
    RETURN health(now, recent, named.queues, named.regions);
END
$$;
