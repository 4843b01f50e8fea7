-- tail(lane, due): the last job waiting in the lane of those that were due by then, or NULL.
CREATE FUNCTION tail(in_lane text, by bigint) RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT id FROM waiting WHERE lane = in_lane AND NOT held AND due <= by
    ORDER BY due DESC, sequence DESC LIMIT 1
$$;
