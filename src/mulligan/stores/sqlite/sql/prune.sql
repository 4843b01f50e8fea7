-- ?1 queue, ?2 status, ?3 ended before, ?4 limit
-- gives the places that were given up
DELETE FROM ended
WHERE place IN (
    SELECT place FROM ended
    WHERE queue = ?1 AND status = ?2 AND ended_at < ?3
    ORDER BY ended_at
    LIMIT ?4
)
RETURNING place
