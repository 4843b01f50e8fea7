-- ?1 worker, ?2 its region, ?3 and ?4 now, ?5 queue, ?6 scope, ?7 lane_priority,
-- ?8 and ?9 the (due, sequence) of the first job, ?10 and ?11 of the last
INSERT INTO running (place, worker, worker_region, token, started_at, leased_at)
SELECT job.place, ?, ?, job.token + 1, ?, ?
FROM lane
CROSS JOIN job ON job.place = lane.place
WHERE lane.queue = ? AND lane.scope = ? AND lane.lane_priority = ?
    AND (lane.due, lane.sequence) BETWEEN (?, ?) AND (?, ?)
