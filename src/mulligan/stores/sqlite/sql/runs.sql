-- What a claim takes at once from the lines of a lane, and core/lines.py would one by one.

-- fragment: of_lane
queue = ? AND scope = ? AND lane_priority = ?

-- fragment: walked
-- As lanes.sql has it; `special` is expires_at, or -1: of jobs in lines it is never NULL.
lane.due, lane.sequence, lane.number, coalesce(lane.expires_at, -1.0),
    {claimed}

-- name: line
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 line, ?5 limit
-- gives its first jobs, each followed by the limits that it names
SELECT
    {walked},
    job.limits
FROM held AS lane
CROSS JOIN job ON job.number = lane.number
WHERE lane.why = 'line' AND lane.queue = ? AND lane.scope = ? AND lane.lane_priority = ?
    AND lane.line = ?
ORDER BY lane.due, lane.sequence
LIMIT ?

-- name: keys
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 limit
-- gives (key, turn, whether a ready line of it names limits, and else its first job) of the keys
-- that are ready, in the order of their turns, but for the key of those that have none
SELECT
    fairness_key.key, fairness_key.turn,
    EXISTS (
        SELECT 1
        FROM line
        WHERE line.queue = fairness_key.queue AND line.scope = fairness_key.scope
            AND line.lane_priority = fairness_key.lane_priority AND line.key = fairness_key.key
            AND line.stage = 'ready'
    ),
    {walked}
FROM fairness_key
LEFT JOIN held AS lane ON lane.why = 'line' AND lane.queue = fairness_key.queue
    AND lane.scope = fairness_key.scope AND lane.lane_priority = fairness_key.lane_priority
    AND lane.line = '.' || fairness_key.key AND lane.due = fairness_key.due
    AND lane.sequence = fairness_key.sequence
LEFT JOIN job ON job.number = lane.number
WHERE fairness_key.queue = ? AND fairness_key.scope = ? AND fairness_key.lane_priority = ?
    AND fairness_key.due IS NOT NULL AND +fairness_key.key > ''
ORDER BY fairness_key.turn, fairness_key.due, fairness_key.sequence
LIMIT ?

-- name: following
-- ?1 lines, a JSON array, ?2 queue, ?3 scope, ?4 lane_priority
-- gives (line, due, sequence) of the first job of each that has one
SELECT each.value, first.due, first.sequence
FROM json_each(?) AS each
CROSS JOIN held AS first ON first.number = (
    SELECT held.number
    FROM held
    WHERE held.why = 'line' AND {of_lane} AND held.line = each.value
    ORDER BY held.due, held.sequence
    LIMIT 1
)

-- name: rest
-- ?1 turn, ?2 queue, ?3 scope, ?4 lane_priority, ?5 keys, a JSON array
-- The keys have no work any more; this is when their next turn would be.
UPDATE fairness_key
SET turn = ?, due = NULL, sequence = NULL, line_due = NULL, line_sequence = NULL, line_stage = NULL
WHERE {of_lane} AND key IN (SELECT value FROM json_each(?))

-- name: go_on
-- ?1 turn, ?2 due, ?3 sequence, ?4 line_due, ?5 line_sequence, ?6 line_stage, ?7 queue, ?8 scope,
-- ?9 lane_priority, ?10 key
UPDATE fairness_key
SET turn = ?, due = ?, sequence = ?, line_due = ?, line_sequence = ?, line_stage = ?
WHERE {of_lane} AND key = ?
