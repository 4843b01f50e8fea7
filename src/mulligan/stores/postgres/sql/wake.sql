-- Waking sleepers. NOTIFY is sent only to a worker that is registered as asleep and still beats,
-- and only when the transaction commits. A sleeper that another transaction is waking is passed
-- over. Whoever puts a job into a lane wakes first, and writes `woken` on the job's row if somebody
-- was: a sleeper that finds a job for which nobody was woken takes it for its own.

-- any_asleep(): whether waking could matter at all.
CREATE FUNCTION any_asleep() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM sleeper WHERE asleep);
END
$$;

-- any_sooner(now, lane, wait, but): whether another worker than `but` waits that may take from the
-- lane sooner than after this wait.
CREATE FUNCTION any_sooner(now bigint, in_lane text, in_wait bigint, but text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM sleeper s
        WHERE s.waiting AND in_lane = ANY (s.lanes) AND s.worker <> but
          AND s.waits[array_position(s.lanes, in_lane)] < in_wait
          AND EXISTS (SELECT FROM worker w WHERE w.id = s.worker AND w.beat_at + w.lease > now));
END
$$;

-- wait_in(now, lane, wait, yields, worker): how long a job in the lane must have been due before
-- the worker may take it: one that yields waits only while another may take it sooner.
CREATE FUNCTION wait_in(now bigint, in_lane text, in_wait bigint, yields boolean, in_worker text)
RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    IF yields AND in_wait > 0 AND NOT any_sooner(now, in_lane, in_wait, in_worker) THEN
        RETURN 0;
    END IF;
    RETURN in_wait;
END
$$;

-- wake_lane(now, lane, due, many): wake up to `many` sleepers to whom a job in this lane, due then,
-- is news: who may take it soonest, and of these the longest asleep, first. Result: how many.
CREATE FUNCTION wake_lane(now bigint, in_lane text, in_due bigint, many bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    how_many bigint;
BEGIN
    WITH chosen AS (
        SELECT s.worker FROM sleeper s
        WHERE s.asleep AND in_lane = ANY (s.lanes)
          AND EXISTS (SELECT FROM worker w WHERE w.id = s.worker AND w.beat_at + w.lease > now)
          AND in_due + wait_in(now, in_lane, s.waits[array_position(s.lanes, in_lane)],
                               s.yields[array_position(s.lanes, in_lane)], s.worker) < s.until
        ORDER BY s.waits[array_position(s.lanes, in_lane)], s.number
        LIMIT many FOR UPDATE SKIP LOCKED
    ), awake AS (
        UPDATE sleeper s SET asleep = false, woken = true
        FROM chosen c WHERE s.worker = c.worker RETURNING s.channel, s.worker
    )
    SELECT count(pg_notify(channel, worker)) INTO how_many FROM awake;
    RETURN how_many;
END
$$;

-- wake_limit(now, key): wake one sleeper that waits for room under this limit.
CREATE FUNCTION wake_limit(now bigint, in_key text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    how_many bigint;
BEGIN
    WITH chosen AS (
        SELECT s.worker FROM sleeper s
        WHERE s.asleep AND in_key = ANY (s.limits)
          AND EXISTS (SELECT FROM worker w WHERE w.id = s.worker AND w.beat_at + w.lease > now)
        ORDER BY s.number LIMIT 1 FOR UPDATE SKIP LOCKED
    ), awake AS (
        UPDATE sleeper s SET asleep = false, woken = true
        FROM chosen c WHERE s.worker = c.worker RETURNING s.channel, s.worker
    )
    SELECT count(pg_notify(channel, worker)) INTO how_many FROM awake;
    RETURN how_many;
END
$$;

-- wake_all(): wake everyone.
CREATE FUNCTION wake_all() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    WITH awake AS (
        UPDATE sleeper SET asleep = false, woken = true WHERE asleep RETURNING channel, worker
    )
    SELECT count(pg_notify(channel, worker)) FROM awake
$$;

-- wake_heads(now, lanes, due_only): wake one sleeper for the first job of each lane, due or not.
-- For when a sleeper that watched these lanes does so no longer.
CREATE FUNCTION wake_heads(now bigint, in_lanes text[], due_only boolean) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    head record;
BEGIN
    FOR head IN
        SELECT l.lane, h.due FROM unnest(in_lanes) AS l (lane)
        CROSS JOIN LATERAL (
            SELECT least(
                (SELECT w.due FROM waiting w WHERE of_lane(w, l.lane) AND NOT w.held
                 ORDER BY w.due, w.sequence LIMIT 1),
                (SELECT min(n.due) FROM line_heads(ARRAY[l.lane]) n)) AS due
        ) h WHERE h.due <= now OR (h.due IS NOT NULL AND NOT due_only)
    LOOP
        PERFORM wake_lane(now, head.lane, head.due, 1);
    END LOOP;
END
$$;

-- wake_new(now, many, queues, regions, priorities, delays, awaits, before, limits, keys): wake one
-- sleeper for each of so many new jobs, but not for those that await others, nor for those that
-- join lines, which wake by themselves. Arrays are as those of `new_jobs`.
-- before: not NULL where a job is not new. Result: for each job whether a sleeper was woken, NULL
-- if for none.
CREATE FUNCTION wake_new(
    now bigint, many integer, queues text[], regions text[], priorities smallint[], delays bigint[],
    awaits integer[], before text[], limits text[], keys text[]
) RETURNS boolean[]
LANGUAGE plpgsql
AS $$
DECLARE
    woken boolean[];
    put record;
BEGIN
    IF NOT any_asleep() THEN
        RETURN NULL;
    END IF;
    IF many = 1 AND before IS NULL AND coalesce(awaits::text[], limits, keys) IS NULL THEN  -- somebody waits for just this
        RETURN CASE WHEN wake_lane(now, lane_name(queues[1], regions[1], priorities[1]),
                                   now + delays[1], 1) > 0 THEN ARRAY[true] END;
    END IF;
    FOR put IN
        SELECT lane_name(coalesce(u.queue, queues[1]), coalesce(u.region, regions[1]),
                         coalesce(u.priority, priorities[1])) AS lane,
               now + coalesce(u.delay, delays[1]) AS due, count(*) AS many,
               array_agg(u.ord::integer ORDER BY u.ord) AS ords
        FROM unnest(queues, regions, priorities, delays, array_fill(NULL::boolean, ARRAY[many]))
          WITH ORDINALITY AS u (queue, region, priority, delay, each, ord)
        WHERE before[u.ord] IS NULL AND coalesce(awaits[u.ord], 0) = 0
          AND coalesce(limits[u.ord], keys[u.ord]) IS NULL
        GROUP BY 1, 2 ORDER BY min(u.ord)
    LOOP
        FOR i IN 1 .. wake_lane(now, put.lane, put.due, put.many) LOOP
            woken[put.ords[i]] := true;
        END LOOP;
    END LOOP;
    RETURN woken;
END
$$;
