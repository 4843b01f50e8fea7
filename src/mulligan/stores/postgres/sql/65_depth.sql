-- depth(given, lane, limit): how many jobs of the lane could start now, counted up to the limit.
CREATE FUNCTION depth(
    given bigint, in_queue text, in_scope text, in_priority smallint, most integer
) RETURNS bigint
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT count(*) FROM (
        SELECT FROM job
        WHERE queue = in_queue AND scope = in_scope AND lane_priority = in_priority
          AND status = 'pending' AND NOT held AND due <= (SELECT instant(given))
        LIMIT most
    ) waiting
$$;
