-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 now, ?5 limit
-- gives how many could start, up to the limit
SELECT count(*)
FROM (
    SELECT 1 FROM lane
    WHERE queue = ? AND scope = ? AND lane_priority = ? AND due <= ?
    LIMIT ?
)
