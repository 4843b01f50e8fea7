-- depth(given, lane, limit): how many jobs of the lane could start now, counted up to the limit.
CREATE FUNCTION depth(given bigint, in_lane text, most integer) RETURNS bigint
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT count(*) FROM (
        SELECT FROM waiting w
        WHERE of_lane(w, in_lane) AND NOT w.held AND w.due <= (SELECT instant(given)) LIMIT most
    ) first
$$;
