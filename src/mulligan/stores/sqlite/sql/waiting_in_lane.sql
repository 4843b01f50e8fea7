-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 now
-- gives (worker, address, waited, yields, until, asleep) of those who wait for the lane and are
-- alive, asleep or rung, who may take from it soonest first
SELECT w.worker, w.address, l.waited, l.yields, w.until, w.asleep
FROM waiting_lane AS l
JOIN waiting AS w ON w.worker = l.worker
JOIN worker ON worker.id = w.worker
WHERE l.queue = ? AND l.scope = ? AND l.lane_priority = ?
    AND (w.asleep = 1 OR w.rung = 1) AND worker.beat_at + worker.lease > ?
ORDER BY l.waited, w.rowid
