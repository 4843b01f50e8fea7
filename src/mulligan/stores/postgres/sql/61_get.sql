-- get(id): the job, or no row.
CREATE FUNCTION get(in_id text) RETURNS SETOF every_job
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT * FROM every_job WHERE id = in_id LIMIT 1
$$;
