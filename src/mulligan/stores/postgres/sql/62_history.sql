-- history(id): failed and lost attempts, oldest first.
CREATE FUNCTION history(in_id text) RETURNS TABLE (failure jsonb)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT failure FROM attempt WHERE job = in_id ORDER BY ordinal
$$;
