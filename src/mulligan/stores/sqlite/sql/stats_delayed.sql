-- ?1 now
-- gives (queue, all, due now, due within an hour) of jobs that were put off
SELECT queue, count(*), sum(due <= ?1), sum(due <= ?1 + 3600)
FROM job
WHERE status = 'pending' AND delayed = 1
GROUP BY queue
