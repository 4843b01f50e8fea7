-- gives (queue, status, how many) of jobs that have ended
SELECT queue, status, count(*)
FROM job
WHERE status = 'done' OR status = 'failed' OR status = 'cancelled'
GROUP BY queue, status
