-- What the rows of `job` and `waiting` mean, and how a job joins and leaves its lane. Views and
-- most functions are made of these.

-- instant(given): the time of an operation in microseconds, read once.
-- given: a test's clock, or NULL for the server's.
CREATE FUNCTION instant(given bigint) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- first_token(number): the token of a job before its first claim, from its number among all jobs.
-- Numbers only grow, so it is above every token that an earlier job of the same id can have had.
CREATE FUNCTION first_token(number bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT number * 4096
$$;

-- expires(job): until when it must have started; NULL when it has used an attempt. A job that a
-- worker returned unstarted has used none.
CREATE FUNCTION expires(j job) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN j.retry_count = 0 AND j.snoozes = 0 AND j.replay = 0 THEN j.expires_at END
$$;

-- lane_name(queue, scope, priority): the lane as `waiting` and `sleeper` name it.
CREATE FUNCTION lane_name(queue text, scope text, priority integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT queue || chr(31) || scope || chr(31) || priority::text
$$;

-- of_lane(waiting, lane): whether the row is of this lane, as the index is asked.
CREATE FUNCTION of_lane(w waiting, lane text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(w.lane, 0) = hashtextextended(lane COLLATE "C", 0) AND w.lane = lane
$$;

-- row_of(waiting, job): whether this is the row of the job, found by its lane and turn there.
-- (It is part of views that people read with a search path of their own. Hence @schema@, for which
-- `schema.py` writes the schema's name.)
CREATE FUNCTION row_of(w waiting, j job) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT @schema@.of_lane(w, @schema@.lane_name(j.queue, j.scope, j.lane_priority))
       AND w.held = ANY ('{f,t}') AND w.due = j.due AND w.sequence = j.sequence
$$;

-- is_lined(job): whether it stands in a line of its lane while it is pending, not in the lane itself.
CREATE FUNCTION is_lined(j job) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT j.awaits = 0 AND (j.limits IS NOT NULL OR j.fairness_key IS NOT NULL)
$$;

-- join_lane(now, id, woken): let a pending job wait in its lane or a line of it, or be held beside it
-- if it awaits others. woken: whether a sleeper was woken for it; NULL if one is to be woken now.
CREATE FUNCTION join_lane(now bigint, in_id text, in_woken boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    new job;
    in_lane text;
BEGIN
    SELECT j.* INTO new FROM job j WHERE j.id = in_id;
    IF is_lined(new) THEN
        PERFORM lock_limits();
        PERFORM stand(now, in_id);
        RETURN;
    END IF;
    in_lane := lane_name(new.queue, new.scope, new.lane_priority);
    IF in_woken IS NULL THEN
        in_woken := new.awaits = 0 AND any_asleep() AND wake_lane(now, in_lane, new.due, 1) > 0;
    END IF;
    INSERT INTO waiting (due, sequence, expires_at, held, woken, delayed, lane, id)
    VALUES (new.due, new.sequence, expires(new), new.awaits > 0, in_woken, new.delayed, in_lane,
            in_id);
END
$$;

-- leave_lane(now, id): a pending job waits in no lane any more, nor in a line of one. Of a job in a
-- line the limits are locked.
CREATE FUNCTION leave_lane(now bigint, in_id text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    stood waiting;
BEGIN
    DELETE FROM waiting w USING job j WHERE j.id = in_id AND row_of(w, j) RETURNING w.* INTO stood;
    IF stood.line > 0 THEN
        PERFORM left_line(now, stood.line, stood.sequence);
    END IF;
END
$$;
