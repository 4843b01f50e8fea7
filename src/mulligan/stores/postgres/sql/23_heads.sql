-- heads(lanes, after): for each lane the due time and sequence of its first job that comes after
-- the position given for it (NULL: from the start), NULLs where there is none. Ordinals are
-- those of the arrays; `which` names the lanes to look at.
CREATE FUNCTION heads(
    which integer[], queues text[], scopes text[], priorities smallint[],
    after_due bigint[], after_sequence bigint[]
) RETURNS TABLE (source integer, due bigint, sequence bigint)
LANGUAGE sql STABLE ROWS 10 AS $$
    SELECT s, h.due, h.sequence
    FROM unnest(which) AS s
    LEFT JOIN LATERAL (
        SELECT j.due, j.sequence FROM job j
        WHERE j.queue = queues[s] AND j.scope = scopes[s] AND j.lane_priority = priorities[s]
          AND j.status = 'pending' AND NOT j.held
          AND (j.due, j.sequence) > (after_due[s], after_sequence[s])
        ORDER BY j.due, j.sequence LIMIT 1
    ) h ON true
$$;
