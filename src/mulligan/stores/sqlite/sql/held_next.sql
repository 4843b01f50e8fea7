-- ?1 concurrency key, ?2 queue, ?3 scope, ?4 lane_priority, ?5 limit to go on after
-- gives (queue, scope, lane_priority, limit, due, place) of the first held job of the next group
SELECT queue, scope, lane_priority, concurrency_limit, due, place
FROM held
WHERE why = 'key' AND concurrency_key = ?
    AND (queue, scope, lane_priority, concurrency_limit) > (?, ?, ?, ?)
ORDER BY queue, scope, lane_priority, concurrency_limit, due, sequence
LIMIT 1
