-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 due
-- gives the id of the last job in the lane that was due by then
SELECT id FROM job
WHERE queue = ?1 AND scope = ?2 AND lane_priority = ?3 AND status = 'pending' AND held = 0
    AND due <= ?4
ORDER BY due DESC, sequence DESC
LIMIT 1
