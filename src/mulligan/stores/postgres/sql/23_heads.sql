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
