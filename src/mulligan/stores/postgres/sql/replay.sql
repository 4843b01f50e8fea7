-- replay(given, ids, from_start): make failed jobs pending again, without what they have recorded
-- if they begin from the start; the log stays. Result: for each whether it was failed, and no other
-- job has taken its unique key.
CREATE FUNCTION replay(given bigint, ids text[], from_start boolean) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
    gathering text[];
BEGIN
    PERFORM FROM job j WHERE j.id = ANY (ids) AND j.dead ORDER BY j.id FOR UPDATE;
    SELECT array_agg(j.gather) INTO gathering FROM job j
    WHERE j.id = ANY (ids) AND j.dead AND j.gather IS NOT NULL;
    IF gathering IS NOT NULL THEN
        PERFORM lock_upwards(gathering);
    END IF;
    FOR i IN 1 .. cardinality(ids) LOOP
        answers := answers || replay_one(now, ids[i], from_start);
    END LOOP;
    RETURN answers;
END
$$;

CREATE FUNCTION replay_one(now bigint, in_id text, from_start boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    in_queue text;
BEGIN
    PERFORM free_lent_key(now, coalesce(j.unique_in, j.queue), j.unique_key)
    FROM job j WHERE j.id = in_id AND j.dead AND j.unique_key IS NOT NULL;
    UPDATE job SET status = 'pending', dead = NULL, ended_at = NULL,
                   open_key = CASE WHEN debounce_until IS NULL THEN unique_key END,
                   replay = replay + 1, retry_count = 0, snoozes = 0, trail = '', awaits = 0,
                   scope = region, lane_priority = priority, due = now, delayed = false,
                   sequence = nextval('counter')
    WHERE id = in_id AND dead
    RETURNING queue INTO in_queue;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO kept_change (many, queue, status) VALUES (-1, in_queue, 'failed');
    IF from_start THEN
        DELETE FROM recorded WHERE job = in_id AND NOT (key >= 'log:' AND key < 'log;');
    END IF;
    PERFORM withdraw(in_id);
    PERFORM join_lane(now, in_id, NULL);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    RETURN false;
END
$$;
