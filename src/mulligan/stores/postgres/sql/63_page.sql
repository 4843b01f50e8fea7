-- page(status, queue, region, task, text, below, limit, floor, skip): jobs that match and came
-- before the place `below`, and not before `floor`, newest first, but for the first `skip`. NULLs
-- match everything; text is sought in the last failure.
CREATE FUNCTION page(
    in_status text, in_queue text, in_region text, in_task text, sought text, below bigint,
    most integer, lowest bigint, skip integer
) RETURNS SETOF every_job
LANGUAGE sql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan AS $$
    SELECT e.* FROM every_job e
    WHERE e.place < below AND e.place >= lowest
      AND (in_status IS NULL OR e.status = in_status)
      AND (in_status IS DISTINCT FROM 'failed' OR e.dead)
      AND (in_queue IS NULL OR e.queue = in_queue)
      AND (in_region IS NULL OR e.region = in_region)
      AND (in_task IS NULL OR e.task = in_task)
      AND (sought IS NULL OR position(
          sought IN (e.last_failure ->> 'type') || ': ' || (e.last_failure ->> 'message')) > 0)
    ORDER BY e.place DESC LIMIT most OFFSET skip
$$;
