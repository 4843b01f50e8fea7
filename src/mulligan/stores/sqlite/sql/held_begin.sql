-- ?1 first place, ?2 last place
-- The new jobs between them that await others are held until these have arrived.
INSERT INTO held (
    place, why, concurrency_key, queue, scope, lane_priority, concurrency_limit, due, sequence,
    delayed, expires_at
)
SELECT
    place, 'arrivals', concurrency_key, queue, scope, lane_priority, concurrency_limit, due,
    sequence, delayed, expires_at
FROM job
WHERE place BETWEEN ? AND ? AND awaits > 0
