-- facts(given, recent): what plans are made from. recent: for how long counts say something.
-- regions: for each the queues that its live workers serve. at: the time.
CREATE FUNCTION facts(
    given bigint, recent bigint, OUT epoch integer, OUT queues jsonb, OUT regions jsonb,
    OUT paused text[], OUT health jsonb, OUT at bigint
)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    now bigint := instant(given);
BEGIN
    SELECT s.epoch INTO epoch FROM state s;
    SELECT coalesce(jsonb_object_agg(q.name, q.settings), '{}') INTO queues
    FROM queue q WHERE q.settings IS NOT NULL;
    SELECT coalesce(jsonb_object_agg(r.name, coalesce(s.queues, '[]')), '{}') INTO regions
    FROM region r LEFT JOIN (
        SELECT w.region, jsonb_agg(DISTINCT q) AS queues
        FROM worker w CROSS JOIN LATERAL jsonb_array_elements(w.self -> 'queues') AS q
        WHERE w.beat_at + w.lease > now GROUP BY 1
    ) s ON s.region = r.name;
    paused := ARRAY(SELECT q.name FROM queue q WHERE q.paused);
    SELECT health(now, recent, array_agg(p.queue), array_agg(p.region)) INTO health
    FROM (
        SELECT s.queue, s.region FROM count_recent s WHERE s.start >= now - recent
        UNION SELECT b.queue, b.region FROM breaker b
    ) p;
    at := now;
END
$$;

-- health(now, recent, queues, regions): how attempts went lately in these queues and regions, since
-- the breaker opened or closed. Each as queue, region, succeeded, failed, open, since, probes,
-- probed_at.
CREATE FUNCTION health(now bigint, recent bigint, queues text[], regions text[]) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_array(
        p.queue, p.region, s.succeeded, s.failed, coalesce(b.open, false), coalesce(b.since, 0),
        coalesce(b.probes, 0), coalesce(b.probed_at, 0))), '[]')
    FROM unnest(queues, regions) AS p (queue, region)
    LEFT JOIN breaker b ON b.queue = p.queue AND b.region = p.region
    CROSS JOIN LATERAL (
        SELECT trunc(coalesce(sum(value) FILTER (WHERE name = 'succeeded'), 0)) AS succeeded,
               trunc(coalesce(sum(value) FILTER (WHERE name = 'failed'), 0)) AS failed
        FROM count_recent
        WHERE queue = p.queue AND region = p.region AND name IN ('failed', 'succeeded')
          AND start >= greatest(now - recent, b.since)
    ) s
$$;
