-- ?1 worker
-- gives (queue, scope, lane_priority) of the lanes that it waits for, asleep or rung
SELECT l.queue, l.scope, l.lane_priority
FROM waiting AS w
JOIN waiting_lane AS l ON l.worker = w.worker
WHERE w.worker = ? AND (w.asleep = 1 OR w.rung = 1)
