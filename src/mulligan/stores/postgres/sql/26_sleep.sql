-- fall_asleep(worker, channel, until, plan): register a worker as waiting on the lanes and gates of
-- its plan, until its next claim. A ring from before is forgotten.
CREATE FUNCTION fall_asleep(
    in_worker text, in_channel text, in_until bigint, queues text[], scopes text[],
    priorities smallint[], in_waits bigint[], source_room bigint[], gate_keys text[],
    gate_key integer[], source_gate integer[]
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    new_lanes text[];
    new_waits bigint[];
    new_watched boolean[];
    new_gates text[];
BEGIN
    SELECT array_agg(l.lane ORDER BY l.ord), array_agg(l.wait ORDER BY l.ord),
           array_agg(l.watched ORDER BY l.ord)
    INTO new_lanes, new_waits, new_watched
    FROM (
        SELECT DISTINCT ON (1) lane_name(u.queue, u.scope, u.priority) AS lane, u.wait, u.ord,
               coalesce(source_room[u.ord] > 0, true) AS watched
        FROM unnest(queues, scopes, priorities, in_waits) WITH ORDINALITY
          AS u (queue, scope, priority, wait, ord)
        ORDER BY 1, u.ord DESC  -- of a lane named twice the last word counts
    ) l;
    SELECT coalesce(array_agg(DISTINCT gate_keys[gate_key[g]]), '{}') INTO new_gates
    FROM unnest(source_gate) AS g;
    INSERT INTO sleeper AS s (worker, place, until, channel, lanes, waits, watched, gates)
    VALUES (in_worker, nextval('counter'), coalesce(in_until, 9223372036854775807), in_channel,
            coalesce(new_lanes, '{}'), coalesce(new_waits, '{}'), coalesce(new_watched, '{}'),
            new_gates)
    ON CONFLICT (worker) DO UPDATE SET
        asleep = true, rung = false, until = excluded.until, channel = excluded.channel,
        lanes = excluded.lanes, waits = excluded.waits, watched = excluded.watched,
        gates = excluded.gates,
        place = CASE WHEN s.asleep THEN s.place ELSE excluded.place END;
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
    UPDATE sleeper s SET asleep = false, rung = false
    WHERE s.worker = in_worker AND (s.asleep OR s.rung) RETURNING s.lanes INTO known;
    IF FOUND AND any_asleep() THEN
        PERFORM ring_heads(now, known, false);
    END IF;
END
$$;
