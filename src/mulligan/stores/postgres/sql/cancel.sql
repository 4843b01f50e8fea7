-- cancel(given, ids, reason): end pending and running jobs. Result: for each whether it was.
CREATE FUNCTION cancel(given bigint, ids text[], reason text) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
    running text[] := lock_living(ids);
BEGIN
    PERFORM hand_back(ARRAY(SELECT j.claimed FROM job j WHERE j.id = ANY (running)));
    PERFORM lock_in_lines(ids);
    -- One that was claimed meanwhile would be waited for with the limits locked.
    IF EXISTS (SELECT FROM job j
               WHERE j.id = ANY (ids) AND j.status = 'processing' AND j.id <> ALL (running)) THEN
        RAISE serialization_failure;
    END IF;
    PERFORM lock_gathering(ids);
    FOR i IN 1 .. cardinality(ids) LOOP
        answers := answers || cancel_one(now, ids[i], reason);
    END LOOP;
    RETURN answers;
END
$$;

-- lock_living(ids): lock those of these jobs that have not ended, in the order that locks.sql
-- gives, but for jobs that stand in lines or await others. One that was put back at the same moment
-- may be in the hands of a claim that waits for us: then all is tried again. Result: the running ones.
CREATE FUNCTION lock_living(ids text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    locked text[];
BEGIN
    PERFORM FROM (
        SELECT j FROM job j
        WHERE j.id = ANY (ids) AND j.status = 'pending' AND j.awaits = 0 AND NOT is_lined(j)
        ORDER BY j.id
    ) p CROSS JOIN LATERAL (SELECT FROM waiting w WHERE row_of(w, p.j) FOR UPDATE) w;
    locked := ARRAY(
        SELECT j.id FROM job j
        WHERE j.id = ANY (ids) AND (j.status = 'processing' OR (
            j.status = 'pending' AND j.awaits = 0 AND NOT is_lined(j)))
        ORDER BY j.id FOR UPDATE);
    PERFORM FROM job j
    WHERE j.id = ANY (ids) AND j.status = 'pending' AND j.awaits = 0 AND NOT is_lined(j)
      AND NOT EXISTS (SELECT FROM waiting w WHERE row_of(w, j) FOR UPDATE SKIP LOCKED);
    IF FOUND THEN
        RAISE serialization_failure;
    END IF;
    RETURN ARRAY(SELECT j.id FROM job j WHERE j.id = ANY (locked) AND j.status = 'processing');
END
$$;

-- lock_in_lines(ids): lock those of these jobs that stand in lines, and the limits before.
CREATE FUNCTION lock_in_lines(ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM job j
               WHERE j.id = ANY (ids) AND j.status = 'pending' AND is_lined(j)) THEN
        PERFORM lock_limits();
        PERFORM FROM job j
        WHERE j.id = ANY (ids) AND j.status = 'pending' AND is_lined(j)
        ORDER BY j.id FOR UPDATE;
    END IF;
END
$$;
