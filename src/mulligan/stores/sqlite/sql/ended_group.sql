-- ?1 queue, ?2 status to go on after
-- gives the next (queue, status) of which jobs have ended
SELECT queue, status FROM job
WHERE (status = 'done' OR status = 'failed' OR status = 'cancelled')
    AND (queue, status) > (?1, ?2)
ORDER BY queue, status
LIMIT 1
