-- Who sleeps, and for what.

-- fall_asleep(worker, channel, until, lanes, waits, yields, watched, limits): register a worker as
-- waiting, until its next claim. Whether it was woken before is forgotten.
CREATE FUNCTION fall_asleep(
    in_worker text, in_channel text, in_until bigint, new_lanes text[], new_waits bigint[],
    new_yields boolean[], new_watched boolean[], new_limits text[]
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    new_until bigint := coalesce(in_until, 9223372036854775807);
BEGIN
    UPDATE sleeper s SET
        waiting = true, asleep = true, woken = false, until = new_until, channel = in_channel,
        lanes = new_lanes, waits = new_waits, yields = new_yields, watched = new_watched,
        limits = new_limits, number = CASE WHEN s.asleep THEN s.number ELSE nextval('counter') END
    WHERE s.worker = in_worker;
    IF NOT FOUND THEN
        INSERT INTO sleeper (worker, number, until, channel, lanes, waits, yields, watched, limits)
        VALUES (in_worker, nextval('counter'), new_until, in_channel, new_lanes, new_waits,
                new_yields, new_watched, new_limits)
        ON CONFLICT (worker) DO NOTHING;
    END IF;
END
$$;

-- stop_sleeping(worker): nobody wakes a worker that claims. Who claims does so before it waits for the
-- limits: others wake sleepers first, and lock the limits after that.
CREATE FUNCTION stop_sleeping(in_worker text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE sleeper s SET asleep = false WHERE s.worker = in_worker AND s.asleep;
END
$$;

-- watched_by(plan, source_room): what a worker waits on, where a lane occurs twice, of which the
-- last word counts, or where limits have no room: the key of every limit, and no lane without room.
CREATE FUNCTION watched_by(
    plan claim_plan, source_room bigint[], OUT lanes text[], OUT waits bigint[],
    OUT yields boolean[], OUT watched boolean[], OUT limits text[]
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    SELECT coalesce(array_agg(l.lane ORDER BY l.ord), '{}'),
           coalesce(array_agg(l.wait ORDER BY l.ord), '{}'),
           coalesce(array_agg(l.yields ORDER BY l.ord), '{}'),
           coalesce(array_agg(l.watched ORDER BY l.ord), '{}')
    INTO lanes, waits, yields, watched
    FROM (
        SELECT DISTINCT ON (1) u.lane, u.wait, u.ord,
               coalesce(plan.yields[u.ord], false) AS yields,
               coalesce(source_room[u.ord] > 0, true) AS watched
        FROM unnest(plan.lanes, plan.waits) WITH ORDINALITY AS u (lane, wait, ord)
        ORDER BY 1, u.ord DESC
    ) l;
    SELECT coalesce(array_agg(DISTINCT plan.limit_keys[plan.limit_key[l]]), '{}')
    INTO limits FROM unnest(plan.source_limit) AS l;
END
$$;

-- stop_waiting(now, worker): the worker has all it asked for and waits for nothing. If it was
-- waiting, others are woken for its lanes.
CREATE FUNCTION stop_waiting(now bigint, in_worker text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    known text[];
BEGIN
    UPDATE sleeper s SET waiting = false, asleep = false, woken = false
    WHERE s.worker = in_worker AND s.waiting RETURNING s.lanes INTO known;
    IF FOUND AND any_asleep() THEN
        PERFORM wake_heads(now, known, false);
    END IF;
END
$$;

-- waits_now(now, worker, heads, plan): what the waits of the sources come to. Empty lanes are not
-- looked at.
CREATE FUNCTION waits_now(
    now bigint, in_worker text, head_due bigint[], lanes text[], waits bigint[], yields boolean[]
) RETURNS bigint[]
LANGUAGE plpgsql
AS $$
BEGIN
    FOR s IN 1 .. cardinality(waits) LOOP
        IF yields[s] AND head_due[s] IS NOT NULL THEN
            waits[s] := wait_in(now, lanes[s], waits[s], true, in_worker);
        END IF;
    END LOOP;
    RETURN waits;
END
$$;

-- look(given, worker, known, overdue): whether the worker has been woken, or a job is there that
-- nobody was woken for, or that has not been claimed within `overdue` since somebody was. Forgets
-- that the worker was woken. known: the wake-up has ended a wait already.
CREATE FUNCTION look(given bigint, in_worker text, known boolean, overdue bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    now bigint := instant(given);
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE sleeper SET woken = false WHERE worker = in_worker AND woken;
    RETURN (FOUND AND NOT known) OR EXISTS (
        SELECT FROM sleeper s
        CROSS JOIN LATERAL unnest(s.lanes, s.waits, s.yields, s.watched)
            AS l (lane, wait, yields, watched)
        CROSS JOIN LATERAL (
            (SELECT w.due, w.woken FROM waiting w WHERE of_lane(w, l.lane) AND NOT w.held
             ORDER BY w.due, w.sequence LIMIT 1)
            UNION ALL
            SELECT n.due, n.woken FROM line_heads(ARRAY[l.lane]) n
        ) h
        CROSS JOIN LATERAL wait_in(now, l.lane, l.wait, l.yields, in_worker) AS real_wait
        WHERE s.worker = in_worker AND s.asleep AND l.watched AND h.due + real_wait < s.until
          AND (NOT h.woken OR h.due + real_wait + overdue <= now)
    );
END
$$;
