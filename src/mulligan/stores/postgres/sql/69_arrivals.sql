-- arrivals(id): the results that have arrived at a gathering job, by place.
CREATE FUNCTION arrivals(in_id text) RETURNS TABLE (place integer, result bytea)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT a.place, a.result FROM arrival a WHERE a.job = in_id ORDER BY a.place
$$;
