-- fall_asleep(worker, channel, until, careful, plan): register a worker as waiting on the lanes and
-- gates of its plan, until its next claim. A ring from before is forgotten. careful: a lane may occur
-- twice.
CREATE FUNCTION fall_asleep(
    in_worker text, in_channel text, in_until bigint, careful boolean, in_lanes text[],
    in_waits bigint[], in_yields boolean[], source_room bigint[], gate_keys text[],
    gate_key integer[], source_gate integer[]
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    new_until bigint := coalesce(in_until, 9223372036854775807);
    new_lanes text[] := in_lanes;
    new_waits bigint[] := in_waits;
    new_yields boolean[] := coalesce(in_yields, array_fill(false, ARRAY[cardinality(in_lanes)]));
    new_watched boolean[] := array_fill(true, ARRAY[cardinality(in_lanes)]);
    new_gates text[] := '{}';
BEGIN
    IF careful OR source_room IS NOT NULL THEN
        SELECT coalesce(array_agg(l.lane ORDER BY l.ord), '{}'),
               coalesce(array_agg(l.wait ORDER BY l.ord), '{}'),
               coalesce(array_agg(l.yields ORDER BY l.ord), '{}'),
               coalesce(array_agg(l.watched ORDER BY l.ord), '{}')
        INTO new_lanes, new_waits, new_yields, new_watched
        FROM (
            SELECT DISTINCT ON (1) u.lane, u.wait, u.ord,
                   coalesce(in_yields[u.ord], false) AS yields,
                   coalesce(source_room[u.ord] > 0, true) AS watched
            FROM unnest(in_lanes, in_waits) WITH ORDINALITY AS u (lane, wait, ord)
            ORDER BY 1, u.ord DESC  -- of a lane named twice the last word counts
        ) l;
        SELECT coalesce(array_agg(DISTINCT gate_keys[gate_key[g]]), '{}') INTO new_gates
        FROM unnest(source_gate) AS g;
    END IF;
    UPDATE sleeper s SET
        waiting = true, asleep = true, rung = false, until = new_until, channel = in_channel,
        lanes = new_lanes, waits = new_waits, yields = new_yields, watched = new_watched,
        gates = new_gates, place = CASE WHEN s.asleep THEN s.place ELSE nextval('counter') END
    WHERE s.worker = in_worker;
    IF NOT FOUND THEN
        INSERT INTO sleeper (worker, place, until, channel, lanes, waits, yields, watched, gates)
        VALUES (in_worker, nextval('counter'), new_until, in_channel, new_lanes, new_waits,
                new_yields, new_watched, new_gates)
        ON CONFLICT (worker) DO NOTHING;
    END IF;
END
$$;

-- wake_up(now, worker): the worker has all it asked for and waits for nothing. If it was waiting,
-- what it knew of its lanes is told to another.
CREATE FUNCTION wake_up(now bigint, in_worker text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    known text[];
BEGIN
    UPDATE sleeper s SET waiting = false, asleep = false, rung = false
    WHERE s.worker = in_worker AND s.waiting RETURNING s.lanes INTO known;
    IF FOUND AND any_asleep() THEN
        PERFORM ring_heads(now, known, false);
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
