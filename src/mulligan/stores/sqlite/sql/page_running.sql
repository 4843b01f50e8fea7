-- :status, which is 'processing', :queue, :region, :task and :text, each NULL for any, :below this
-- place and not under the place :floor, :limit, how many to :skip, and whether to give :bodies and
-- results
-- as page.sql, for the few that run
SELECT
    place,
    id, queue, task, region, priority, status, scope, lane_priority, due, sequence, token, retry_count,
    replay, snoozes, created_at, CASE WHEN :bodies THEN CAST(body AS BLOB) ELSE x'' END,
    unique_key, concurrency_key, concurrency_limit, held, expires_at, worker, worker_region, started_at, last_retry_at, ended_at,
    CASE WHEN :bodies THEN CAST(result AS BLOB) END, last_failure_reason, cancel_reason, trail,
    unique_in, awaits, gather, gather_index
FROM jobs
WHERE place IN (SELECT place FROM running) AND :status = 'processing'
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
