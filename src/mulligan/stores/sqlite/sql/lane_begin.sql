-- ?1 first place, ?2 last place
-- The new jobs between them join their lanes, but for those that await others.
INSERT INTO lane (queue, scope, lane_priority, due, sequence, place, delayed, expires_at)
SELECT queue, scope, lane_priority, due, sequence, place, delayed, expires_at
FROM job
WHERE place BETWEEN ? AND ? AND awaits = 0
