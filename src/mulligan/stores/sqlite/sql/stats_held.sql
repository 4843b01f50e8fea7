-- ?1 now
-- gives the same as stats_lanes for jobs that wait for their concurrency key
SELECT queue, scope, lane_priority, sum(due <= ?1), count(*), min(due)
FROM job
WHERE status = 'pending' AND held > 0 AND held = 1
GROUP BY queue, scope, lane_priority
