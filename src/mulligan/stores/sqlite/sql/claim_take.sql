-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 and ?5 the (due, sequence) of the first job,
-- ?6 and ?7 of the last
DELETE FROM lane
WHERE queue = ? AND scope = ? AND lane_priority = ?
    AND (due, sequence) BETWEEN (?, ?) AND (?, ?)
