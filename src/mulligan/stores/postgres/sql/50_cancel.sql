-- cancel(given, ids, reason): end pending and running jobs. Result: for each whether it was.
CREATE FUNCTION cancel(given bigint, ids text[], reason text) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
    found_one record;
    gates_held boolean := false;
BEGIN
    PERFORM FROM job j WHERE j.id = ANY (ids) ORDER BY j.id FOR UPDATE;
    FOR i IN 1 .. cardinality(ids) LOOP
        SELECT j.id, j.token, j.concurrency_key, j.permits
        INTO found_one FROM job j WHERE j.id = ids[i] FOR UPDATE;
        answers := answers || FOUND;
        CONTINUE WHEN NOT FOUND;
        PERFORM end_job(now, found_one.id, found_one.token + 1, 'cancelled', reason);
        IF coalesce(found_one.concurrency_key, found_one.permits) IS NOT NULL THEN
            IF NOT gates_held THEN
                PERFORM hold_gates();
                gates_held := true;
            END IF;
            PERFORM release(now, found_one.concurrency_key, found_one.permits);
        END IF;
    END LOOP;
    RETURN answers;
END
$$;
