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
               coalesce(w.expires_at <= now, false) AS special
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

-- expire(now, at): end a job that has expired, and take it out of its lane. Result: its id, if
-- another job awaits it, which is told when the walk is over.
CREATE FUNCTION expire(now bigint, at tid) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    stood waiting;
    was record;
BEGIN
    DELETE FROM waiting w WHERE w.ctid = at RETURNING w.* INTO stood;
    SELECT j.token, j.gather INTO was FROM job j WHERE j.id = stood.id;
    PERFORM end_cancelled(now, stood.id, was.token, 'expired before it could start');
    IF stood.line > 0 THEN
        PERFORM left_line(now, stood.line, stood.sequence);
    END IF;
    RETURN CASE WHEN was.gather IS NOT NULL THEN stood.id END;
END
$$;
