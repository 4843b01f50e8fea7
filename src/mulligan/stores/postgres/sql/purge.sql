-- purge(given, ids): delete jobs that have ended, with their history. Result: for each whether it
-- had.
CREATE FUNCTION purge(given bigint, ids text[]) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
    gathering text[];
    was record;
    reason text;
BEGIN
    PERFORM FROM job j WHERE j.id = ANY (ids) AND j.ended_at IS NOT NULL ORDER BY j.id FOR UPDATE;
    SELECT array_agg(j.gather) INTO gathering FROM job j
    WHERE j.id = ANY (ids) AND j.status = 'failed' AND j.gather IS NOT NULL;
    IF gathering IS NOT NULL THEN
        PERFORM lock_upwards(gathering);
    END IF;
    FOR i IN 1 .. cardinality(ids) LOOP
        DELETE FROM job WHERE id = ids[i] AND ended_at IS NOT NULL
        RETURNING status, gather, gather_index, retry_count, queue INTO was;
        answers := answers || FOUND;
        IF FOUND THEN
            INSERT INTO kept_change (many, queue, status) VALUES (-1, was.queue, was.status);
            SELECT (a.failure ->> 'type') || ': ' || (a.failure ->> 'message') INTO reason
            FROM attempt a WHERE a.job = ids[i] ORDER BY a.ordinal DESC LIMIT 1;
            DELETE FROM attempt WHERE job = ids[i];
            DELETE FROM arrival WHERE job = ids[i];
            DELETE FROM recorded WHERE job = ids[i];
            IF was.status = 'failed' THEN
                PERFORM miss_purged(now, ids[i], was.gather, was.gather_index, reason,
                                    was.retry_count + 1);
            END IF;
        END IF;
    END LOOP;
    RETURN answers;
END
$$;
