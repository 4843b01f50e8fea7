-- ?1 now
-- gives (queue, scope, lane_priority, ready, all, first due) of lanes that are not empty
SELECT queue, scope, lane_priority, sum(due <= ?), count(*), min(due)
FROM lane
GROUP BY queue, scope, lane_priority
