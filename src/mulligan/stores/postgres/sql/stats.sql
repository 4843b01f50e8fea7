-- stats(given): counts of everything, as one JSON document. What has ended is not looked at: `kept`
-- and `kept_change` know.
CREATE FUNCTION stats(given bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET jit = off AS $$
BEGIN
    RETURN (
        WITH at AS MATERIALIZED (SELECT instant(given) AS now),
        stand AS MATERIALIZED (
            SELECT w.lane, w.held AND w.line IS NULL AS gathers, w.delayed,
                   w.due <= at.now AS ready, w.due <= at.now + 3600000000 AS soon, count(*) AS many,
                   min(w.due) AS oldest
            FROM waiting w, at GROUP BY 1, 2, 3, 4, 5
        ), lane AS (
            SELECT s.lane, coalesce(sum(s.many) FILTER (WHERE s.ready), 0) AS ready,
                   coalesce(sum(s.many) FILTER (WHERE NOT s.ready), 0) AS delayed,
                   min(s.oldest) AS oldest
            FROM stand s WHERE NOT s.gathers GROUP BY 1
        ), gathers AS (
            SELECT split_part(s.lane, chr(31), 1) AS queue, sum(s.many) AS many FROM stand s
            WHERE s.gathers GROUP BY 1
        ), late AS (
            SELECT split_part(s.lane, chr(31), 1) AS queue, sum(s.many) AS total,
                   coalesce(sum(s.many) FILTER (WHERE s.ready), 0) AS ready_now,
                   coalesce(sum(s.many) FILTER (WHERE s.soon), 0) AS ready_in_hour
            FROM stand s WHERE s.delayed GROUP BY 1
        ), run AS (
            SELECT j.queue, coalesce(j.worker_region, j.region) AS region, c.worker,
                   count(*) AS many
            FROM claimed c CROSS JOIN LATERAL unnest(c.ids) AS i (id)
            CROSS JOIN LATERAL (  -- one by one, never by walking through all jobs
                SELECT h.* FROM job h
                WHERE h.id = i.id AND h.claimed = c.number AND h.status = 'processing' LIMIT 1
            ) j
            GROUP BY 1, 2, 3
        ), over AS (
            SELECT k.queue, k.status, sum(k.many) AS many
            FROM (SELECT queue, status, many FROM kept
                  UNION ALL SELECT queue, status, many FROM kept_change) k
            GROUP BY 1, 2 HAVING sum(k.many) <> 0
        )
        SELECT jsonb_build_object(
            'now', (SELECT now FROM at),
            'lanes', (SELECT coalesce(jsonb_agg(jsonb_build_array(
                split_part(lane, chr(31), 1), split_part(lane, chr(31), 2),
                split_part(lane, chr(31), 3)::integer, ready, delayed, oldest)), '[]') FROM lane),
            'running', (SELECT coalesce(jsonb_agg(jsonb_build_array(queue, region, many)), '[]')
                FROM (SELECT queue, region, sum(many) AS many FROM run GROUP BY 1, 2) r),
            'ended', (SELECT coalesce(jsonb_agg(jsonb_build_array(queue, status, many)), '[]')
                FROM over),
            'delayed', (SELECT coalesce(jsonb_agg(jsonb_build_array(
                queue, total, ready_now, ready_in_hour)), '[]') FROM late),
            'gathering', (SELECT coalesce(jsonb_object_agg(queue, many), '{}') FROM gathers),
            'workers', (SELECT coalesce(jsonb_agg(jsonb_build_array(
                w.self, w.beat_at, w.joined_at, w.beat_at + w.lease > (SELECT now FROM at),
                (SELECT coalesce(sum(r.many), 0) FROM run r WHERE r.worker = w.id))
                ORDER BY w.joined_at, w.id), '[]') FROM worker w))
    );
END
$$;
