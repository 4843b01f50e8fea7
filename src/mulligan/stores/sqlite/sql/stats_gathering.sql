-- gives (queue, how many) of jobs that await others
SELECT queue, count(*)
FROM job
WHERE status = 'pending' AND held > 0 AND held = 2
GROUP BY queue
