-- ?1 first place, ?2 last place, ?3 queue, ?4 region, ?5 priority, ?6 due, ?7 now
-- as lane_begin, for new jobs that are alike and await nothing: nothing is read of them but that
-- they are there
INSERT INTO lane (queue, scope, lane_priority, due, sequence, place, delayed)
SELECT ?3, ?4, ?5, ?6, place, place, ?6 > ?7
FROM job
WHERE place BETWEEN ?1 AND ?2
