-- stand(id, called): let a pending job stand in its lane, or be held beside it if it awaits others.
CREATE FUNCTION stand(in_id text, in_called boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO waiting (due, sequence, expires_at, concurrency_limit, held, called, delayed, lane,
                         id, concurrency_key)
    SELECT j.due, j.sequence, expires(j), j.concurrency_limit, j.awaits > 0, in_called, j.delayed,
           lane_name(j.queue, j.scope, j.lane_priority), j.id,
           CASE WHEN j.awaits = 0 THEN j.concurrency_key END
    FROM job j WHERE j.id = in_id;
END
$$;

-- stands(waiting, job): whether this is where the job stands, found by its lane and place there.
-- (It is part of views that people read with a search path of their own. Hence @schema@.)
CREATE FUNCTION stands(w waiting, j job) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT @schema@.of_lane(w, @schema@.lane_name(j.queue, j.scope, j.lane_priority))
       AND w.held = ANY ('{f,t}') AND w.due = j.due AND w.sequence = j.sequence
$$;

-- leave_lane(id): a pending job stands nowhere any more.
CREATE FUNCTION leave_lane(in_id text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM waiting w USING job j WHERE j.id = in_id AND stands(w, j);
END
$$;

-- lock_living(ids): lock those of these jobs that have not ended, in the order that `locks` gives,
-- but for jobs that await others. One that was put back at the same moment may be in the hands of a
-- claim that waits for us: then all is tried again.
CREATE FUNCTION lock_living(ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM (
        SELECT j FROM job j WHERE j.id = ANY (ids) AND j.status = 'pending' AND j.awaits = 0
        ORDER BY j.id
    ) p CROSS JOIN LATERAL (SELECT FROM waiting w WHERE stands(w, p.j) FOR UPDATE) w;
    PERFORM FROM job j
    WHERE j.id = ANY (ids) AND (j.status = 'processing' OR (j.status = 'pending' AND j.awaits = 0))
    ORDER BY j.id FOR UPDATE;
    PERFORM FROM job j
    WHERE j.id = ANY (ids) AND j.status = 'pending' AND j.awaits = 0 AND NOT EXISTS (
        SELECT FROM waiting w WHERE stands(w, j) FOR UPDATE SKIP LOCKED);
    IF FOUND THEN
        RAISE serialization_failure;
    END IF;
END
$$;

-- lock_gathering(ids): lock those of these jobs that await others, what the others arrive at, and
-- so on upwards.
CREATE FUNCTION lock_gathering(ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    gathering text[];
BEGIN
    SELECT array_agg(CASE WHEN j.awaits > 0 THEN j.id ELSE j.gather END) INTO gathering
    FROM job j
    WHERE j.id = ANY (ids) AND j.ended_at IS NULL AND (j.awaits > 0 OR j.gather IS NOT NULL);
    IF gathering IS NOT NULL THEN
        PERFORM lock_upwards(gathering);
    END IF;
END
$$;
