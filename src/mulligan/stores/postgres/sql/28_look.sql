-- look(given, worker, heard, patience): whether the worker has been rung, or a job is there that
-- nobody was called for, or that the one called has not come for within `patience`. Forgets the
-- ring. heard: the ring has ended a wait already.
CREATE FUNCTION look(given bigint, in_worker text, heard boolean, patience bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    now bigint := instant(given);
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE sleeper SET rung = false WHERE worker = in_worker AND rung;
    RETURN (FOUND AND NOT heard) OR EXISTS (
        SELECT FROM sleeper s
        CROSS JOIN LATERAL unnest(s.lanes, s.waits, s.yields, s.watched)
            AS l (lane, wait, yields, watched)
        CROSS JOIN LATERAL (
            SELECT w.due, w.called FROM waiting w WHERE of_lane(w, l.lane) AND NOT w.held
            ORDER BY w.due, w.sequence LIMIT 1
        ) h
        CROSS JOIN LATERAL wait_in(now, l.lane, l.wait, l.yields, in_worker) AS real_wait
        WHERE s.worker = in_worker AND s.asleep AND l.watched AND h.due + real_wait < s.until
          AND (NOT h.called OR h.due + real_wait + patience <= now)
    );
END
$$;
