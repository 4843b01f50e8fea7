-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 waited, ?5 the worker that asks, ?6 now
-- gives a row if another waits, alive, that may take from the lane sooner than after this wait
SELECT 1
FROM waiting_lane AS l
JOIN waiting AS w ON w.worker = l.worker
JOIN worker ON worker.id = w.worker
WHERE l.queue = ? AND l.scope = ? AND l.lane_priority = ?
    AND l.waited < ? AND l.worker <> ?
    AND (w.asleep = 1 OR w.rung = 1) AND worker.beat_at + worker.lease > ?
LIMIT 1
