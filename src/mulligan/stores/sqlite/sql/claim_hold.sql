-- ?1 place
-- The job waits until its concurrency key has room.
INSERT INTO held (
    place, why, concurrency_key, queue, scope, lane_priority, concurrency_limit, due, sequence,
    delayed, expires_at
)
SELECT
    place, 'key', concurrency_key, queue, scope, lane_priority, concurrency_limit, due, sequence,
    delayed, CASE WHEN retry_count = 0 AND snoozes = 0 AND replay = 0 THEN expires_at END
FROM job
WHERE place = ?
