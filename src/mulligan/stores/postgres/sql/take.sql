-- What a walk does at the lanes: look at their first jobs, and take them out.

-- first_heads(lanes): for each lane the due time and sequence of its first job, NULLs where there
-- is none. Ordinals are those of the array.
CREATE FUNCTION first_heads(lanes text[])
RETURNS TABLE (source integer, due bigint, sequence bigint)
LANGUAGE sql STABLE ROWS 10 AS $$
    SELECT s, h.due, h.sequence
    FROM generate_subscripts(lanes, 1) AS s
    LEFT JOIN LATERAL (
        SELECT w.due, w.sequence FROM waiting w
        WHERE of_lane(w, lanes[s]) AND NOT w.held
        ORDER BY w.due, w.sequence LIMIT 1
    ) h ON true
$$;

-- heads(which, lanes, after): for each lane the due time and sequence of its first job that comes
-- after the position given for it, NULLs where there is none. Ordinals are those of the arrays;
-- `which` names the lanes to look at.
CREATE FUNCTION heads(
    which integer[], lanes text[], after_due bigint[], after_sequence bigint[]
) RETURNS TABLE (source integer, due bigint, sequence bigint)
LANGUAGE sql STABLE ROWS 10 AS $$
    SELECT s, h.due, h.sequence
    FROM unnest(which) AS s
    LEFT JOIN LATERAL (
        SELECT w.due, w.sequence FROM waiting w
        WHERE of_lane(w, lanes[s]) AND NOT w.held
          AND (w.due, w.sequence) > (after_due[s], after_sequence[s])
        ORDER BY w.due, w.sequence LIMIT 1
    ) h ON true
$$;

-- merged(now, chunk, sources, …): the first jobs of several sources, by due time and sequence.
CREATE FUNCTION merged(
    now bigint, chunk bigint, which integer[], lanes text[], waits bigint[], head_due bigint[],
    head_sequence bigint[]
) RETURNS TABLE (at tid, id text, source integer, due bigint, sequence bigint, special boolean)
LANGUAGE plpgsql ROWS 100
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT l.at, l.id, l.source, l.due, l.sequence, l.special FROM (
        SELECT w.ctid AS at, w.id, c.source, w.due, w.sequence,
               w.concurrency_key IS NOT NULL OR coalesce(w.expires_at <= now, false) AS special
        FROM (
            SELECT s AS source, f.at FROM unnest(which) AS s
            CROSS JOIN LATERAL (
                SELECT w.ctid AS at, w.due, w.sequence FROM waiting w
                WHERE of_lane(w, lanes[s]) AND NOT w.held
                  AND (w.due, w.sequence) >= (head_due[s], head_sequence[s])
                  AND w.due <= now - waits[s]
                ORDER BY w.due, w.sequence LIMIT chunk
            ) f
            ORDER BY f.due, f.sequence LIMIT chunk
        ) c
        JOIN waiting w ON w.ctid = c.at AND NOT w.held
        FOR UPDATE OF w SKIP LOCKED
    ) l ORDER BY l.due, l.sequence;
END
$$;

-- take(now, at): take a job that may have expired, or has a concurrency key, out of its lane. The
-- limits are locked.
-- Result: whether it was taken, and with which permit; if not, it has ended or is held. others:
-- whether other jobs joined or left their lanes because of it. expired: its id, if it has ended and
-- another job awaits it, which is told when the walk is over.
CREATE FUNCTION take(
    now bigint, at tid, OUT taken boolean, OUT permit text, OUT others boolean, OUT expired text
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
        expired := CASE WHEN was.gather IS NOT NULL THEN stood.id END;
        others := stood.concurrency_key IS NOT NULL;
        RETURN;
    END IF;
    IF stood.concurrency_key IS NOT NULL THEN
        permit := 'key:' || stood.concurrency_key;
        INSERT INTO limit_use AS u (key, used) VALUES (permit, 1)
        ON CONFLICT (key) DO UPDATE SET used = u.used + 1
        WHERE u.used < stood.concurrency_limit;
        taken := FOUND;
    END IF;
    IF taken THEN
        DELETE FROM waiting WHERE ctid = at;
    ELSE
        UPDATE waiting SET held = true WHERE ctid = at;
    END IF;
END
$$;
