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
