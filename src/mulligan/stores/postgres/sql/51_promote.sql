-- promote(given, limit): cancel pending jobs that expired before they could start; how many. For
-- due jobs that wait in lanes where someone sleeps, one is rung: whoever knew of them is gone or
-- busy.
CREATE FUNCTION promote(given bigint, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := instant(given);
    late text[];
    slept_on text[];
BEGIN
    SELECT array_agg(DISTINCT l.lane) INTO slept_on
    FROM sleeper s CROSS JOIN LATERAL unnest(s.lanes, s.watched) AS l (lane, watched)
    WHERE s.asleep AND l.watched;
    IF slept_on IS NOT NULL THEN
        PERFORM ring_heads(now, slept_on, true);
    END IF;
    PERFORM FROM job j
    WHERE j.status = 'pending' AND never_started(j) AND j.expires_at IS NOT NULL
      AND j.expires_at <= now
    LIMIT 1;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- Before the locks, as some may await others; none of them is waited for.
    PERFORM hold_gates();
    SELECT array_agg(l.id) INTO late FROM (
        SELECT j.id FROM job j
        WHERE j.status = 'pending' AND never_started(j) AND j.expires_at IS NOT NULL
          AND j.expires_at <= now
        ORDER BY j.expires_at LIMIT most FOR UPDATE SKIP LOCKED
    ) l;
    IF late IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM cancel(now, late, 'expired before it could start');
    RETURN cardinality(late);
END
$$;
