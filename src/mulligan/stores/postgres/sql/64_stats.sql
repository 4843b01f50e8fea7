-- stats(given): counts of everything, as one JSON document.
CREATE FUNCTION stats(given bigint) RETURNS jsonb
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    WITH at AS MATERIALIZED (SELECT instant(given) AS now),
    lane AS (
        SELECT j.queue, j.scope, j.lane_priority, count(*) FILTER (WHERE j.due <= at.now) AS ready,
               count(*) FILTER (WHERE j.due > at.now) AS delayed, min(j.due) AS oldest
        FROM job j, at WHERE j.status = 'pending' AND j.awaits = 0 GROUP BY 1, 2, 3
    ), gathers AS (
        SELECT j.queue, count(*) AS many FROM job j
        WHERE j.status = 'pending' AND j.awaits > 0 GROUP BY 1
    ), run AS (
        SELECT j.queue, coalesce(j.worker_region, j.region) AS region, j.worker, count(*) AS many
        FROM job j WHERE j.status = 'processing' GROUP BY 1, 2, 3
    ), over AS (
        SELECT e.queue, e.status, count(*) AS many FROM ended e GROUP BY 1, 2
    ), late AS (
        SELECT j.queue, count(*) AS total, count(*) FILTER (WHERE j.due <= at.now) AS ready_now,
               count(*) FILTER (WHERE j.due <= at.now + 3600000000) AS ready_in_hour
        FROM job j, at WHERE j.status = 'pending' AND j.delayed GROUP BY 1
    )
    SELECT jsonb_build_object(
        'now', (SELECT now FROM at),
        'lanes', (SELECT coalesce(jsonb_agg(jsonb_build_array(
            queue, scope, lane_priority, ready, delayed, oldest)), '[]') FROM lane),
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
$$;
