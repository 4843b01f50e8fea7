-- :status, :queue, :region, :task and :text, each NULL for any, :below this place and not under
-- the place :floor, :limit, how many to :skip, and whether to give :bodies and results
-- gives (place, then the fields of Job), newest first
SELECT
    place,
    id, queue, task, region, priority, status, scope, lane_priority, due, sequence, token, retry_count,
    replay, snoozes, created_at, CASE WHEN :bodies THEN CAST(body AS BLOB) ELSE x'' END,
    unique_key, concurrency_key, concurrency_limit, held, expires_at, worker, worker_region, started_at, last_retry_at, ended_at,
    CASE WHEN :bodies THEN CAST(result AS BLOB) END, last_failure_reason, cancel_reason, trail,
    unique_in, awaits, gather, gather_index
FROM jobs
WHERE (:status IS NULL OR status = :status)
    AND (:queue IS NULL OR queue = :queue) AND (:region IS NULL OR region = :region)
    AND (:task IS NULL OR task = :task) AND place < :below AND place >= :floor
    AND (
        :text IS NULL
        OR instr(
            (
                SELECT attempt.type || ': ' || attempt.message FROM attempt
                WHERE attempt.job = jobs.id ORDER BY attempt.place DESC LIMIT 1
            ), :text
        ) > 0
    )
ORDER BY place DESC
LIMIT :limit OFFSET :skip
