-- cancel(given, ids, reason): end pending and running jobs. Result: for each whether it was.
CREATE FUNCTION cancel(given bigint, ids text[], reason text) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
    locked text[] := lock_living(ids);
BEGIN
    PERFORM hand_back(ARRAY(SELECT j.claimed FROM job j
                            WHERE j.id = ANY (locked) AND j.status = 'processing'));
    locked := locked || lock_in_lines(ids);
    PERFORM lock_gathering(ids);
    -- One that was claimed or put back between two of these steps is not locked in its turn.
    IF EXISTS (SELECT FROM job j WHERE j.id = ANY (ids) AND j.ended_at IS NULL AND j.awaits = 0
                                   AND j.id <> ALL (locked)) THEN
        RAISE serialization_failure;
    END IF;
    FOR i IN 1 .. cardinality(ids) LOOP
        answers := answers || cancel_one(now, ids[i], reason);
    END LOOP;
    RETURN answers;
END
$$;

-- lock_living(ids): lock those of these jobs that have not ended, in the order that locks.sql
-- gives, but for jobs that stand in lines or await others. One that was put back at the same moment
-- may be in the hands of a claim that waits for us: then all is tried again. Result: those.
CREATE FUNCTION lock_living(ids text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    running text[] := ARRAY(SELECT j.id FROM job j
                            WHERE j.id = ANY (ids) AND j.status = 'processing');
    locked text[];
BEGIN
    PERFORM FROM (
        SELECT j FROM job j
        WHERE j.id = ANY (ids) AND j.status = 'pending' AND j.awaits = 0 AND NOT is_lined(j)
        ORDER BY j.id
    ) p CROSS JOIN LATERAL (SELECT FROM waiting w WHERE row_of(w, p.j) FOR UPDATE) w;
    locked := ARRAY(
        SELECT j.id FROM job j
        WHERE j.id = ANY (running) OR (
            j.id = ANY (ids) AND j.status = 'pending' AND j.awaits = 0 AND NOT is_lined(j))
        ORDER BY j.id FOR UPDATE);
    PERFORM FROM job j
    WHERE j.id = ANY (ids) AND j.status = 'pending' AND j.awaits = 0 AND CASE
        WHEN is_lined(j) THEN j.id = ANY (locked)
        ELSE NOT EXISTS (SELECT FROM waiting w WHERE row_of(w, j) FOR UPDATE SKIP LOCKED) END;
    IF FOUND THEN
        RAISE serialization_failure;
    END IF;
    RETURN locked;
END
$$;

-- lock_in_lines(ids): lock those of these jobs that stand in lines, and the limits before. Result:
-- those.
CREATE FUNCTION lock_in_lines(ids text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM job j
                   WHERE j.id = ANY (ids) AND j.status = 'pending' AND is_lined(j)) THEN
        RETURN '{}';
    END IF;
    PERFORM lock_limits();
    RETURN ARRAY(
        SELECT j.id FROM job j
        WHERE j.id = ANY (ids) AND j.status = 'pending' AND is_lined(j)
        ORDER BY j.id FOR UPDATE);
END
$$;
