-- Jobs that join and leave lines.

-- name: standing
-- ?1 numbers, a JSON array
-- gives (number, due, sequence, limits, fairness_key, queue, scope, lane_priority) of those that
-- stand in lines
SELECT number, due, sequence, limits, fairness_key, queue, scope, lane_priority
FROM job
WHERE number IN (SELECT value FROM json_each(?)) AND awaits = 0
    AND (limits IS NOT NULL OR fairness_key IS NOT NULL)
ORDER BY sequence

-- name: stand
-- ?1 line, ?2 number
-- The job stands in this line of its lane. What has started does not expire.
INSERT INTO held (
    number, why, line, queue, scope, lane_priority, due, sequence, delayed, expires_at
)
SELECT
    number, 'line', ?, queue, scope, lane_priority, due, sequence, delayed,
    CASE WHEN retry_count = 0 AND snoozes = 0 AND replay = 0 THEN expires_at END
FROM job
WHERE number = ?

-- name: known_lines
-- ?1 a JSON object: lines by their keys, ?2 queue, ?3 scope, ?4 lane_priority
-- gives (key, due, sequence) of those that have jobs
SELECT line.key, line.due, line.sequence
FROM json_each(?) AS each
CROSS JOIN line ON line.queue = ? AND line.scope = ? AND line.lane_priority = ?
    AND line.key = each.key AND line.line = each.value

-- name: known_keys
-- ?1 keys, a JSON array, ?2 queue, ?3 scope, ?4 lane_priority
-- gives (key, turn, due, sequence) of those that the lane knows
SELECT known.key, known.turn, known.due, known.sequence
FROM json_each(?) AS each
CROSS JOIN fairness_key AS known ON known.queue = ? AND known.scope = ? AND known.lane_priority = ?
    AND known.key = each.value

-- name: line_of
-- ?1 number
-- gives (queue, scope, lane_priority, line, sequence) of a job that stands in a line
SELECT queue, scope, lane_priority, line, sequence FROM held WHERE number = ? AND why = 'line'

-- name: leave
-- ?1 number
DELETE FROM held WHERE number = ?
