-- ?1 worker, ?2 its region, ?3 now, ?4 queue, ?5 scope, ?6 lane_priority,
-- ?7 and ?8 the (due, sequence) of the first job, ?9 and ?10 of the last
INSERT INTO running (place, worker, worker_region, token, started_at, leased_at)
SELECT job.place, ?1, ?2, job.token + 1, ?3, ?3
FROM lane
CROSS JOIN job ON job.place = lane.place
WHERE lane.queue = ?4 AND lane.scope = ?5 AND lane.lane_priority = ?6
    AND (lane.due, lane.sequence) BETWEEN (?7, ?8) AND (?9, ?10)
