-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 now, ?5 limit
-- gives how many could start, up to the limit
SELECT count(*)
FROM (
    SELECT 1 FROM lane
    WHERE queue = ?1 AND scope = ?2 AND lane_priority = ?3 AND due <= ?4
    LIMIT ?5
)
