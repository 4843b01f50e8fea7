-- ?1 now, ?2 sequence, ?3 id
-- gives (place, queue, scope, lane_priority) of the job and the lane that it is meant for
UPDATE job SET awaits = 0, due = ?, sequence = ?
WHERE id = ?
RETURNING place, queue, scope, lane_priority
