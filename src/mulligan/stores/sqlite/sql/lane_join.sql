-- ?1 places, a JSON array
-- The jobs join the lanes that they are meant for. What has started does not expire.
INSERT INTO lane (queue, scope, lane_priority, due, sequence, place, delayed, expires_at)
SELECT
    queue, scope, lane_priority, due, sequence, place, delayed,
    CASE WHEN retry_count = 0 AND snoozes = 0 AND replay = 0 THEN expires_at END
FROM job
WHERE place IN (SELECT value FROM json_each(?))
