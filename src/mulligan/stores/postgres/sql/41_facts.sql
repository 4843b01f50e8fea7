-- facts(given): what plans are made from.
CREATE FUNCTION facts(
    given bigint, OUT epoch integer, OUT queues jsonb, OUT regions text[], OUT live text[],
    OUT paused text[]
)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT
        (SELECT s.epoch FROM state s),
        (SELECT coalesce(jsonb_object_agg(q.name, q.settings), '{}')
         FROM queue q WHERE q.settings IS NOT NULL),
        ARRAY(SELECT r.name FROM region r ORDER BY r.name),
        ARRAY(SELECT DISTINCT w.region FROM worker w WHERE w.beat_at + w.lease > instant(given)),
        ARRAY(SELECT q.name FROM queue q WHERE q.paused)
$$;
