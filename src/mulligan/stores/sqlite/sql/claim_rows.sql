-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 now, ?5 and ?6 the (due, sequence) to go on after,
-- ?7 limit
-- gives the due jobs of the lane in order
SELECT
    due, sequence, place, id, token, queue, task, CAST(body AS BLOB), region, priority, scope,
    lane_priority, retry_count, replay, snoozes, trail,
    concurrency_key IS NOT NULL OR (token = 0 AND expires_at IS NOT NULL),
    concurrency_key, concurrency_limit, CASE WHEN token = 0 THEN expires_at END
FROM job
WHERE queue = ?1 AND scope = ?2 AND lane_priority = ?3 AND status = 'pending' AND held = 0
    AND due <= ?4 AND (due, sequence) > (?5, ?6)
ORDER BY due, sequence
LIMIT ?7
