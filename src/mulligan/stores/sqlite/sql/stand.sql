-- Where jobs stand: how they join and leave lanes and lines, and end before they start. One of four
-- tables has a row for each pending, running or ended job (lane, held, running, ended).

-- name: members
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

-- name: known_keys
-- ?1 keys, a JSON array, ?2 queue, ?3 scope, ?4 lane_priority
-- gives (key, turn, due, sequence, line_due, line_sequence) of those that the lane knows
SELECT known.key, known.turn, known.due, known.sequence, known.line_due, known.line_sequence
FROM json_each(?) AS each
CROSS JOIN fairness_key AS known ON known.queue = ? AND known.scope = ? AND known.lane_priority = ?
    AND known.key = each.value

-- name: put_keys
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key, ?5 turn, ?6 due, ?7 sequence, ?8 line_due,
-- ?9 line_sequence, ?10 line_stage
-- Keys with lines that are new.
INSERT INTO fairness_key (
    queue, scope, lane_priority, key, turn, due, sequence, line_due, line_sequence, line_stage
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue, scope, lane_priority, key) DO UPDATE
SET turn = excluded.turn, due = excluded.due, sequence = excluded.sequence,
    line_due = excluded.line_due, line_sequence = excluded.line_sequence,
    line_stage = excluded.line_stage

-- name: line_of
-- ?1 number
-- gives (queue, scope, lane_priority, line, sequence) of a job that stands in a line
SELECT queue, scope, lane_priority, line, sequence FROM held WHERE number = ? AND why = 'line'

-- name: leave
-- ?1 number
DELETE FROM held WHERE number = ?
