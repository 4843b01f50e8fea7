-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 and ?5 the (due, sequence) of the first job,
-- ?6 and ?7 of the last
DELETE FROM lane
WHERE queue = ?1 AND scope = ?2 AND lane_priority = ?3
    AND (due, sequence) BETWEEN (?4, ?5) AND (?6, ?7)
