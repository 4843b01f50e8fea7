-- take(now, at): take a job that may have expired, or has a concurrency key, out of its lane. The
-- gates are held.
-- Result: whether it was taken, and with which permit; if not, it has ended or is held. others:
-- whether other jobs joined or left their lanes because of it.
CREATE FUNCTION take(
    now bigint, at tid, OUT taken boolean, OUT permit text, OUT others boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    stood waiting;
    was record;
BEGIN
    taken := true;
    others := false;
    SELECT w.* INTO stood FROM waiting w WHERE w.ctid = at;
    IF stood.expires_at <= now THEN
        taken := false;
        DELETE FROM waiting WHERE ctid = at;
        SELECT j.token, j.gather INTO was FROM job j WHERE j.id = stood.id;
        PERFORM end_cancelled(now, stood.id, was.token, 'expired before it could start');
        IF stood.concurrency_key IS NOT NULL THEN
            PERFORM let_go(now, stood.concurrency_key);
        END IF;
        IF was.gather IS NOT NULL THEN
            PERFORM lock_upwards(ARRAY[was.gather]);
            PERFORM miss(now, stood.id, was.gather, 'cancelled');
        END IF;
        others := coalesce(stood.concurrency_key, was.gather) IS NOT NULL;
        RETURN;
    END IF;
    IF stood.concurrency_key IS NOT NULL THEN
        permit := 'key:' || stood.concurrency_key;
        INSERT INTO gate AS g (key, used) VALUES (permit, 1)
        ON CONFLICT (key) DO UPDATE SET used = g.used + 1
        WHERE g.used < stood.concurrency_limit;
        taken := FOUND;
    END IF;
    IF taken THEN
        DELETE FROM waiting WHERE ctid = at;
    ELSE
        UPDATE waiting SET held = true WHERE ctid = at;
    END IF;
END
$$;
