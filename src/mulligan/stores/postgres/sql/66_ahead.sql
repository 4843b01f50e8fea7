-- ahead(id): how many jobs stand before this one in its lane, none if it stands in no lane; no row
-- if it is unknown.
CREATE FUNCTION ahead(in_id text) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN j.status = 'pending' AND j.awaits = 0 THEN (
        SELECT count(*) FROM waiting w
        WHERE of_lane(w, lane_name(j.queue, j.scope, j.lane_priority))
          AND (NOT w.held OR w.concurrency_key IS NOT NULL)
          AND (w.due, w.sequence) < (j.due, j.sequence)
    ) ELSE 0 END FROM job j WHERE j.id = in_id
$$;
