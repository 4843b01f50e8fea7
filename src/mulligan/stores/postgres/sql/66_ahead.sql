-- ahead(id): how many jobs stand before this one in its lane; no row if it is unknown.
CREATE FUNCTION ahead(in_id text) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT (
        SELECT count(*) FROM waiting w
        WHERE of_lane(w, lane_name(j.queue, j.scope, j.lane_priority))
          AND (NOT w.held OR w.concurrency_key IS NOT NULL)
          AND (w.due, w.sequence) < (j.due, CASE WHEN j.awaits > 0 THEN 0 ELSE j.sequence END)
    ) FROM job j WHERE j.id = in_id
$$;
