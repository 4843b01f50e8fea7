-- ?1 worker, ?2 limit
-- gives the jobs it holds, the longest running first: started_at, sequence, place,
-- concurrency_key, then the fields of Claim with the token that the reclaim will give
SELECT
    running.started_at, job.sequence, job.place, job.concurrency_key,
    job.id, running.token + 1, job.queue, job.task, CAST(job.body AS BLOB), job.region,
    job.priority, job.scope, job.lane_priority, job.due, job.retry_count, job.replay, job.snoozes,
    running.worker, coalesce(running.worker_region, job.region),
    coalesce(running.started_at, 0.0), job.trail
FROM running
CROSS JOIN job ON job.place = running.place
WHERE running.worker = ?
ORDER BY running.started_at, job.sequence
LIMIT ?
