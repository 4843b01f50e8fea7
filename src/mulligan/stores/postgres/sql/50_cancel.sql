-- cancel(given, ids, reason): end pending and running jobs. Result: for each whether it was.
CREATE FUNCTION cancel(given bigint, ids text[], reason text) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
BEGIN
    PERFORM lock_living(ids);
    PERFORM hand_back(ARRAY(SELECT j.claimed FROM job j
                            WHERE j.id = ANY (ids) AND j.status = 'processing'));
    PERFORM lock_gathering(ids);
    FOR i IN 1 .. cardinality(ids) LOOP
        answers := answers || cancel_one(now, ids[i], reason);
    END LOOP;
    RETURN answers;
END
$$;
