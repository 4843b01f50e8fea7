-- ?1 queue, ?2 status, ?3 ended before, ?4 limit
-- gives the places that were given up
DELETE FROM ended
WHERE place IN (
    SELECT place FROM ended
    WHERE queue = ? AND status = ? AND ended_at < ?
    ORDER BY ended_at
    LIMIT ?
)
RETURNING place
