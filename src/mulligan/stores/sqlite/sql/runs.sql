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
-- gives (key, turn, line, whether a ready line of it names limits, and the first job) of the keys
-- that are ready, in the order of their turns, but for the key of those that have none
SELECT
    fairness_key.key, fairness_key.turn, line.line,
    line.costs IS NOT NULL OR EXISTS (
        SELECT 1
        FROM line AS other
        WHERE other.queue = fairness_key.queue AND other.scope = fairness_key.scope
            AND other.lane_priority = fairness_key.lane_priority AND other.key = fairness_key.key
            AND other.stage = 'ready' AND other.costs IS NOT NULL
    ),
    {walked}
FROM fairness_key
CROSS JOIN line ON line.queue = fairness_key.queue AND line.scope = fairness_key.scope
    AND line.lane_priority = fairness_key.lane_priority AND line.key = fairness_key.key
    AND line.due = fairness_key.due AND line.sequence = fairness_key.sequence
CROSS JOIN held AS lane ON lane.why = 'line' AND lane.queue = fairness_key.queue
    AND lane.scope = fairness_key.scope AND lane.lane_priority = fairness_key.lane_priority
    AND lane.line = line.line AND lane.due = fairness_key.due
    AND lane.sequence = fairness_key.sequence
CROSS JOIN job ON job.number = lane.number
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

-- name: go_on
-- ?1 due, ?2 sequence, ?3 stage, ?4 queue, ?5 scope, ?6 lane_priority, ?7 key, ?8 line
UPDATE line SET due = ?, sequence = ?, stage = ? WHERE {of_lane} AND key = ? AND line = ?

-- name: turn
-- ?1 turn, ?2 due, ?3 sequence, ?4 queue, ?5 scope, ?6 lane_priority, ?7 key
UPDATE fairness_key SET turn = ?, due = ?, sequence = ? WHERE {of_lane} AND key = ?
