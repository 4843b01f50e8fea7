-- merged(now, chunk, sources, …): the first jobs of several sources, by due time and sequence.
CREATE FUNCTION merged(
    now bigint, chunk bigint, which integer[], queues text[], scopes text[], priorities smallint[],
    waits bigint[], head_due bigint[], head_sequence bigint[]
) RETURNS TABLE (at tid, id text, source integer, due bigint, sequence bigint, special boolean)
LANGUAGE plpgsql ROWS 100
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT l.at, l.id, l.source, l.due, l.sequence, l.special FROM (
        SELECT j.ctid AS at, j.id, c.source, j.due, j.sequence,
               j.concurrency_key IS NOT NULL
               OR (j.expires_at <= now AND never_started(j)) AS special
        FROM (
            SELECT s AS source, f.at FROM unnest(which) AS s
            CROSS JOIN LATERAL (
                SELECT j.ctid AS at, j.due, j.sequence FROM job j
                WHERE j.queue = queues[s] AND j.scope = scopes[s]
                  AND j.lane_priority = priorities[s] AND j.status = 'pending' AND NOT j.held
                  AND (j.due, j.sequence) >= (head_due[s], head_sequence[s])
                  AND j.due <= now - waits[s]
                ORDER BY j.due, j.sequence LIMIT chunk
            ) f
            ORDER BY f.due, f.sequence LIMIT chunk
        ) c
        JOIN job j ON j.ctid = c.at AND j.status <> 'processing' AND NOT j.held
        FOR UPDATE OF j SKIP LOCKED
    ) l ORDER BY l.due, l.sequence;
END
$$;
