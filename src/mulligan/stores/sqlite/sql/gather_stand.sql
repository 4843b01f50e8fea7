-- ?1 now, ?2 sequence, ?3 id
-- gives (queue, scope, lane_priority) of the lane that it joins
UPDATE job SET awaits = 0, held = 0, due = ?1, sequence = ?2
WHERE id = ?3
RETURNING queue, scope, lane_priority
