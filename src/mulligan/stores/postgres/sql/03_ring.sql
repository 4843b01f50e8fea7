-- Waking sleepers. NOTIFY is sent only to a worker that is registered as asleep and still beats,
-- and only when the transaction commits. A sleeper that another transaction is ringing is passed
-- over. Whoever puts a job into a lane rings first, and notes on the job whether someone was
-- called for it: a sleeper that finds a job for which nobody was called takes it for its own.

-- any_asleep(): whether ringing could matter at all.
CREATE FUNCTION any_asleep() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM sleeper WHERE asleep);
END
$$;

-- any_sooner(now, lane, wait, but): whether someone else waits who may take from the lane sooner
-- than after this wait.
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

-- ring_lane(now, lane, due, many): wake up to `many` sleepers to whom a job in this lane, due then,
-- is news: who may take it soonest, and of these the longest asleep, first. Result: how many.
CREATE FUNCTION ring_lane(now bigint, in_lane text, in_due bigint, many bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    woken bigint;
BEGIN
    WITH chosen AS (
        SELECT s.worker FROM sleeper s
        WHERE s.asleep AND in_lane = ANY (s.lanes)
          AND EXISTS (SELECT FROM worker w WHERE w.id = s.worker AND w.beat_at + w.lease > now)
          AND in_due + wait_in(now, in_lane, s.waits[array_position(s.lanes, in_lane)],
                               s.yields[array_position(s.lanes, in_lane)], s.worker) < s.until
        ORDER BY s.waits[array_position(s.lanes, in_lane)], s.place
        LIMIT many FOR UPDATE SKIP LOCKED
    ), rung AS (
        UPDATE sleeper s SET asleep = false, rung = true
        FROM chosen c WHERE s.worker = c.worker RETURNING s.channel, s.worker
    )
    SELECT count(pg_notify(channel, worker)) INTO woken FROM rung;
    RETURN woken;
END
$$;

-- ring_gate(now, key): wake one sleeper that waits on this gate.
CREATE FUNCTION ring_gate(now bigint, in_key text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    woken bigint;
BEGIN
    WITH chosen AS (
        SELECT s.worker FROM sleeper s
        WHERE s.asleep AND in_key = ANY (s.gates)
          AND EXISTS (SELECT FROM worker w WHERE w.id = s.worker AND w.beat_at + w.lease > now)
        ORDER BY s.place LIMIT 1 FOR UPDATE SKIP LOCKED
    ), rung AS (
        UPDATE sleeper s SET asleep = false, rung = true
        FROM chosen c WHERE s.worker = c.worker RETURNING s.channel, s.worker
    )
    SELECT count(pg_notify(channel, worker)) INTO woken FROM rung;
    RETURN woken;
END
$$;

-- ring_all(): wake everyone.
CREATE FUNCTION ring_all() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    WITH rung AS (
        UPDATE sleeper SET asleep = false, rung = true WHERE asleep RETURNING channel, worker
    )
    SELECT count(pg_notify(channel, worker)) FROM rung
$$;

-- ring_heads(now, lanes, due_only): what a sleeper knew of these lanes is told to another: one is
-- rung for the first job of each, due or not.
CREATE FUNCTION ring_heads(now bigint, in_lanes text[], due_only boolean) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    head record;
BEGIN
    FOR head IN
        SELECT l.lane, h.due FROM unnest(in_lanes) AS l (lane)
        CROSS JOIN LATERAL (
            SELECT w.due FROM waiting w WHERE of_lane(w, l.lane) AND NOT w.held
            ORDER BY w.due, w.sequence LIMIT 1
        ) h WHERE h.due <= now OR NOT due_only
    LOOP
        PERFORM ring_lane(now, head.lane, head.due, 1);
    END LOOP;
END
$$;

-- of_lane(waiting, lane): whether the job is of this lane, as the index is asked.
CREATE FUNCTION of_lane(w waiting, lane text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(w.lane, 0) = hashtextextended(lane COLLATE "C", 0) AND w.lane = lane
$$;

-- lane_name(queue, scope, priority): the lane as `waiting` and `sleeper` name it.
CREATE FUNCTION lane_name(queue text, scope text, priority integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT queue || chr(31) || scope || chr(31) || priority::text
$$;
