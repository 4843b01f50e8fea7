-- ahead(id): how many jobs stand before this one in its lane; no row if it is unknown.
CREATE FUNCTION ahead(in_id text) RETURNS SETOF bigint
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT (
        SELECT count(*) FROM job j
        WHERE j.queue = e.queue AND j.scope = e.scope AND j.lane_priority = e.lane_priority
          AND j.status = 'pending' AND j.awaits = 0 AND (j.due, j.sequence) < (e.due, e.sequence)
    ) FROM every_job e WHERE e.id = in_id
$$;
