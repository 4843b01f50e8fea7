-- ?1 now
-- gives the same as stats_lanes for jobs that wait for their concurrency key
SELECT queue, scope, lane_priority, sum(due <= ?), count(*), min(due)
FROM held
WHERE why = 'key'
GROUP BY queue, scope, lane_priority
