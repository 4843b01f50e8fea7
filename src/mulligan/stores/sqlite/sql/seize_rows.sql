-- ?1 worker, ?2 limit
-- gives the jobs it holds, the longest running first: started_at, sequence, place,
-- concurrency_key, then the fields of Claim with the token that the seizure will give
SELECT
    started_at, sequence, place, concurrency_key,
    id, token + 1, queue, task, CAST(body AS BLOB), region, priority, scope, lane_priority, due,
    retry_count, replay, snoozes, worker, coalesce(worker_region, region), coalesce(started_at, 0.0),
    trail
FROM job
WHERE status = 'processing' AND worker = ?1
ORDER BY started_at, sequence
LIMIT ?2
