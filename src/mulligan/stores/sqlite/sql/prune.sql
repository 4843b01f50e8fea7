-- ?1 queue, ?2 status, ?3 ended before, ?4 limit
-- gives the ids that were deleted
DELETE FROM job
WHERE place IN (
    SELECT place FROM job
    WHERE (status = 'done' OR status = 'failed' OR status = 'cancelled')
        AND queue = ?1 AND status = ?2 AND ended_at < ?3
    ORDER BY ended_at
    LIMIT ?4
)
RETURNING id
