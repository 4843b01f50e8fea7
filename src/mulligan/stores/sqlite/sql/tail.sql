-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 due
-- gives the id of the last job in the lane that was due by then
SELECT job.id
FROM lane
CROSS JOIN job ON job.place = lane.place
WHERE lane.queue = ? AND lane.scope = ? AND lane.lane_priority = ? AND lane.due <= ?
ORDER BY lane.due DESC, lane.sequence DESC
LIMIT 1
