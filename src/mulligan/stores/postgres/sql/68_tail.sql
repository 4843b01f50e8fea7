-- tail(lane, due): the last job waiting in the lane of those that were due by then, or NULL.
CREATE FUNCTION tail(in_lane text, by bigint) RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT w.id FROM waiting w WHERE of_lane(w, in_lane) AND NOT w.held AND w.due <= by
    ORDER BY w.due DESC, w.sequence DESC LIMIT 1
$$;
