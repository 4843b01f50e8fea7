-- cancel(given, ids, reason): end pending and running jobs. Result: for each whether it was.
CREATE FUNCTION cancel(given bigint, ids text[], reason text) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
    gathering text[];
BEGIN
    PERFORM FROM job j WHERE j.id = ANY (ids) AND j.awaits = 0 ORDER BY j.id FOR UPDATE;
    SELECT array_agg(CASE WHEN j.awaits > 0 THEN j.id ELSE j.gather END) INTO gathering
    FROM job j WHERE j.id = ANY (ids) AND (j.awaits > 0 OR j.gather IS NOT NULL);
    IF gathering IS NOT NULL THEN
        PERFORM lock_upwards(gathering);
    END IF;
    FOR i IN 1 .. cardinality(ids) LOOP
        answers := answers || cancel_one(now, ids[i], reason);
    END LOOP;
    RETURN answers;
END
$$;
