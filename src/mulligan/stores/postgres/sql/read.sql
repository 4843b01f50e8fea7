-- What readers call. None of these writes anything.

-- every_job: jobs as a reader sees them, whole rows of `job` with what other tables say of them.
CREATE VIEW every_job AS
SELECT j.*,
       CASE WHEN j.limits IS NOT NULL AND j.status = 'pending' THEN (
           SELECT l.waits_for FROM waiting w JOIN line l ON l.id = w.line WHERE row_of(w, j) LIMIT 1
       ) END AS waits_for,
       (SELECT c.worker FROM claimed c WHERE j.status = 'processing' AND c.number = j.claimed)
       AS worker,
       (SELECT (a.failure ->> 'type') || ': ' || (a.failure ->> 'message')
        FROM attempt a WHERE j.failures > 0 AND a.job = j.id
        ORDER BY a.ordinal DESC LIMIT 1) AS last_failure_reason
FROM job j;

-- overview: for people, with times as timestamps.
CREATE VIEW overview AS
SELECT id, queue, scope, lane_priority, task, status, retry_count, token, worker, waits_for, awaits,
       to_timestamp(created_at / 1e6) AS created_at, to_timestamp(due / 1e6) AS due,
       to_timestamp(started_at / 1e6) AS started_at, to_timestamp(ended_at / 1e6) AS ended_at
FROM every_job;

-- get(id): the job, or no row.
CREATE FUNCTION get(in_id text) RETURNS SETOF every_job
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT * FROM every_job WHERE id = in_id LIMIT 1
$$;

-- statuses(ids): the statuses of those of the jobs that are stored.
CREATE FUNCTION statuses(ids text[]) RETURNS TABLE (id text, status text)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT j.id, j.status FROM job j WHERE j.id = ANY (ids)
$$;

-- arrivals(id): the results that have arrived at a gathering job, by gather_index.
CREATE FUNCTION arrivals(in_id text) RETURNS TABLE (gather_index integer, result bytea)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT a.gather_index, a.result FROM arrival a WHERE a.job = in_id ORDER BY a.gather_index
$$;

-- history(id): failed and lost attempts, oldest first.
CREATE FUNCTION history(in_id text) RETURNS TABLE (failure jsonb)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT failure || jsonb_build_object('traceback', traceback) FROM attempt
    WHERE job = in_id ORDER BY ordinal
$$;

-- page(status, queue, region, task, text, below, limit, lowest, skip): jobs that match, with
-- numbers under `below` and from `lowest` on, newest first, but for the first `skip`. NULLs match
-- everything; text is sought in the last failure.
CREATE FUNCTION page(
    in_status text, in_queue text, in_region text, in_task text, sought text, below bigint,
    most integer, lowest bigint, skip integer
) RETURNS SETOF every_job
LANGUAGE sql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan AS $$
    SELECT e.* FROM every_job e
    WHERE e.number < below AND e.number >= lowest
      AND (in_status IS NULL OR e.status = in_status)
      AND (in_status IS DISTINCT FROM 'failed' OR e.dead)
      AND (in_queue IS NULL OR e.queue = in_queue)
      AND (in_region IS NULL OR e.region = in_region)
      AND (in_task IS NULL OR e.task = in_task)
      AND (sought IS NULL OR position(sought IN e.last_failure_reason) > 0)
    ORDER BY e.number DESC LIMIT most OFFSET skip
$$;

-- depth(given, lane, limit): how many jobs of the lane could start now, counted up to the limit; not
-- those in a line that waits for a limit.
CREATE FUNCTION depth(given bigint, in_lane text, most integer) RETURNS bigint
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT count(*) FROM (
        SELECT FROM waiting w
        WHERE of_lane(w, in_lane) AND NOT w.held AND w.due <= (SELECT instant(given))
        UNION ALL
        SELECT FROM waiting w LEFT JOIN line l ON l.id = w.line
        WHERE of_lane(w, in_lane) AND w.held AND w.line IS NOT NULL AND l.waits_for IS NULL
          AND w.due <= (SELECT instant(given))
        LIMIT most
    ) first
$$;

-- ahead(id): how many jobs are before this one in its lane, none if it is in no lane; no row if it
-- is unknown.
CREATE FUNCTION ahead(in_id text) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN j.status = 'pending' AND j.awaits = 0 THEN (
        SELECT count(*) FROM waiting w
        WHERE of_lane(w, lane_name(j.queue, j.scope, j.lane_priority))
          AND (NOT w.held OR w.line IS NOT NULL)
          AND (w.due, w.sequence) < (j.due, j.sequence)
    ) ELSE 0 END FROM job j WHERE j.id = in_id
$$;

-- tail(lane, due): the last job waiting in the lane, or in a line of it, of those that were due by
-- then, or NULL.
CREATE FUNCTION tail(in_lane text, by bigint) RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT last.id FROM (
        (SELECT w.id, w.due, w.sequence FROM waiting w
         WHERE of_lane(w, in_lane) AND NOT w.held AND w.due <= by
         ORDER BY w.due DESC, w.sequence DESC LIMIT 1)
        UNION ALL
        (SELECT w.id, w.due, w.sequence FROM waiting w
         WHERE of_lane(w, in_lane) AND w.held AND w.line IS NOT NULL AND w.due <= by
         ORDER BY w.due DESC, w.sequence DESC LIMIT 1)
    ) last ORDER BY last.due DESC, last.sequence DESC LIMIT 1
$$;
