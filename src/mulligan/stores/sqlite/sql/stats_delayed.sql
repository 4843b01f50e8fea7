-- ?1 and ?2 now
-- gives (queue, all, due now, due within an hour) of jobs that were put off
SELECT queue, count(*), sum(due <= ?), sum(due <= ? + 3600)
FROM (
    SELECT queue, due FROM lane WHERE delayed = 1
    UNION ALL
    SELECT queue, due FROM held WHERE delayed = 1
)
GROUP BY queue
