-- tail(lane, due): the last job waiting in the lane of those that were due by then, or NULL.
CREATE FUNCTION tail(in_queue text, in_scope text, in_priority smallint, by bigint) RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT id FROM job
    WHERE queue = in_queue AND scope = in_scope AND lane_priority = in_priority
      AND status = 'pending' AND NOT held AND due <= by
    ORDER BY due DESC, sequence DESC LIMIT 1
$$;
