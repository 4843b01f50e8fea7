-- adopt(given, jobs): take over jobs of another store as they are, each a row of `job` as JSON with
-- its body64, history (attempts, oldest first), and what has arrived at it as pairs of gather_index
-- and result64, and what it has recorded, oldest first: key without the place of a line, number,
-- at, value64, and token, counted from that of the job.
-- Result: for each whether neither its id nor its unique key was stored before.
CREATE FUNCTION adopt(given bigint, jobs jsonb) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
    adopted jsonb;
BEGIN
    FOR adopted IN SELECT * FROM jsonb_array_elements(jobs) LOOP
        answers := answers || adopt_one(now, adopted);
    END LOOP;
    RETURN answers;
END
$$;

CREATE FUNCTION adopt_one(now bigint, adopted jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    new job := jsonb_populate_record(NULL::job, adopted);
    failed boolean := adopted ->> 'status' = 'failed';
BEGIN
    new.body := decode(adopted ->> 'body64', 'base64');
    new.number := nextval('counter');
    new.sequence := new.number;
    new.delayed := new.due > now;
    new.token := first_token(new.number) + new.token % 4096;  -- as many are used as there
    new.committed := 0;
    new.failures := jsonb_array_length(adopted -> 'history');
    IF failed THEN
        new.dead := true;
    ELSE  -- a dead letter does not hold its key
        new.status := 'pending';
        new.ended_at := NULL;
        new.open_key := new.unique_key;
        PERFORM free_lent_key(now, coalesce(new.unique_in, new.queue), new.unique_key);
        -- A debounced job does not need its key: none is lost because another has it.
        IF new.debounce_until IS NOT NULL AND there_before(
            new.id, coalesce(new.unique_in, new.queue), new.unique_key) IS NOT NULL THEN
            new.open_key := NULL;
        END IF;
    END IF;
    INSERT INTO job SELECT new.* ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO attempt (job, ordinal, failure, traceback)
    SELECT new.id, a.ord, a.failure - 'traceback', a.failure ->> 'traceback'
    FROM jsonb_array_elements(adopted -> 'history') WITH ORDINALITY AS a (failure, ord);
    INSERT INTO arrival (job, gather_index, result)
    SELECT new.id, (a.pair ->> 0)::integer, decode(a.pair ->> 1, 'base64')
    FROM jsonb_array_elements(adopted -> 'arrived') AS a (pair);
    INSERT INTO recorded (job, key, token, number, at, value)
    SELECT new.id,
           CASE r.entry ->> 0 WHEN 'log'
               THEN format('log:%s:%s', lpad((new.token + (r.entry ->> 4)::bigint)::text, 17, '0'),
                           lpad(r.entry ->> 1, 10, '0'))
               ELSE r.entry ->> 0 END,
           new.token + (r.entry ->> 4)::bigint, (r.entry ->> 1)::integer,
           (r.entry ->> 2)::bigint, decode(r.entry ->> 3, 'base64')
    FROM jsonb_array_elements(adopted -> 'records') AS r (entry);
    IF failed THEN
        INSERT INTO kept_change (many, queue, status) VALUES (1, new.queue, 'failed');
    ELSE
        PERFORM join_lane(now, new.id, NULL);
    END IF;
    RETURN true;
END
$$;
