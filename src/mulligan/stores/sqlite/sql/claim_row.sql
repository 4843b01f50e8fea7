-- ?1 place
-- gives the job as claim_rows does
SELECT
    due, sequence, place, id, token, queue, task, CAST(body AS BLOB), region, priority, scope,
    lane_priority, retry_count, replay, snoozes, trail,
    concurrency_key IS NOT NULL OR (token = 0 AND expires_at IS NOT NULL),
    concurrency_key, concurrency_limit, CASE WHEN token = 0 THEN expires_at END
FROM job
WHERE place = ?1
