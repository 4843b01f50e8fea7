-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 worker, ?5 waited, ?6 yields
INSERT INTO waiting_lane (queue, scope, lane_priority, worker, waited, yields)
VALUES (?, ?, ?, ?, ?, ?)
