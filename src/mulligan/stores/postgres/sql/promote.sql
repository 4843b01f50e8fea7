-- promote(given, limit): cancel pending jobs that expired before they could start, those first that
-- expired first, or came first of those that expired at the same time; how many. For due jobs that
-- wait in lanes where someone sleeps, one is woken: whoever was woken for them is gone or busy.
CREATE FUNCTION promote(given bigint, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint := instant(given);
    late text[];
    locked text[];
    watched text[];
BEGIN
    SELECT array_agg(DISTINCT l.lane) INTO watched
    FROM sleeper s CROSS JOIN LATERAL unnest(s.lanes, s.watched) AS l (lane, watched)
    WHERE s.asleep AND l.watched;
    IF watched IS NOT NULL THEN
        PERFORM wake_heads(now, watched, true);
    END IF;
    late := ARRAY(SELECT w.id FROM waiting w WHERE w.expires_at <= now
                  ORDER BY w.expires_at LIMIT most);
    IF late = '{}' THEN
        RETURN 0;
    END IF;
    locked := lock_living(late);
    locked := locked || lock_in_lines(late);
    PERFORM lock_gathering(late);
    late := ARRAY(SELECT j.id FROM job j
                  WHERE j.id = ANY (late) AND (j.awaits > 0 OR j.id = ANY (locked))
                    AND j.status = 'pending' AND expires(j) <= now
                  ORDER BY j.expires_at, j.number);
    FOR i IN 1 .. cardinality(late) LOOP
        PERFORM cancel_one(now, late[i], 'expired before it could start');
    END LOOP;
    RETURN cardinality(late);
END
$$;
