-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 now, ?5 a worker to leave out
-- gives (worker, address, waited, until) of the lane's sleepers that are alive, who may take
-- from it soonest first
SELECT w.worker, w.address, l.waited, w.until
FROM waiting_lane AS l
JOIN waiting AS w ON w.worker = l.worker
JOIN worker ON worker.id = w.worker
WHERE l.queue = ?1 AND l.scope = ?2 AND l.lane_priority = ?3
    AND w.asleep = 1 AND w.worker IS NOT ?5 AND worker.beat_at + worker.lease > ?4
ORDER BY l.waited, w.rowid
