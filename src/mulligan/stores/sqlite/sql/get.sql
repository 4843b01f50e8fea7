-- ?1 id
-- gives the job in the order of the fields of Job
SELECT
    id, queue, task, region, priority, status, scope, lane_priority, due, sequence, token, retry_count,
    replay, snoozes, created_at, CAST(body AS BLOB), unique_key, concurrency_key, concurrency_limit,
    held, expires_at, worker, worker_region, started_at, last_retry_at, ended_at,
    CAST(result AS BLOB), last_failure_reason, cancel_reason, trail, unique_in, awaits, gather,
    gather_index
FROM jobs
WHERE id = ?
