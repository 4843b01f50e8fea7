-- ?1 queue, ?2 status to go on after
-- gives the next (queue, status) of which jobs have ended
SELECT queue, status FROM ended
WHERE (queue, status) > (?, ?)
ORDER BY queue, status
LIMIT 1
