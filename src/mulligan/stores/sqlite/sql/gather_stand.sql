-- ?1 now, ?2 sequence, ?3 id
-- gives (place, queue, scope, lane_priority) of the job and the lane that it is meant for
UPDATE job SET awaits = 0, due = ?1, sequence = ?2
WHERE id = ?3
RETURNING place, queue, scope, lane_priority
