-- ?1 status, ?2 queue, ?3 region, ?4 task, ?5 text, each but the first NULL for any,
-- ?6 below this place, ?7 limit, ?8 the queues to look in, a JSON array
-- as page.sql, for the few that failed or were cancelled among many that are done
SELECT
    place,
    id, queue, task, region, priority, status, scope, lane_priority, due, sequence, token, retry_count,
    replay, snoozes, created_at, CAST(body AS BLOB), unique_key, concurrency_key, concurrency_limit,
    held, expires_at, worker, worker_region, started_at, last_retry_at, ended_at,
    CAST(result AS BLOB), last_failure_reason, cancel_reason, trail, unique_in, awaits, gather,
    gather_place
FROM jobs
WHERE place IN (
        SELECT place FROM ended
        WHERE queue IN (SELECT value FROM json_each(?8)) AND status = ?1
    )
    AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR region = ?3)
    AND (?4 IS NULL OR task = ?4) AND place < ?6
    AND (
        ?5 IS NULL
        OR instr(
            (
                SELECT attempt.type || ': ' || attempt.message FROM attempt
                WHERE attempt.job = jobs.id ORDER BY attempt.place DESC LIMIT 1
            ), ?5
        ) > 0
    )
ORDER BY place DESC
LIMIT ?7
