-- ?1 queue, ?2 region, ?3 priority, ?4 due, ?5 1 if it is later than now, else 0,
-- ?6 first place, ?7 last place
-- as lane_begin, for new jobs that are alike and await nothing: nothing is read of them but that
-- they are there
INSERT INTO lane (queue, scope, lane_priority, due, sequence, place, delayed)
SELECT ?, ?, ?, ?, place, place, ?
FROM job
WHERE place BETWEEN ? AND ?
