-- The lanes of a plan, and what is taken from them.

-- name: heads
-- ?1 lanes, a JSON array of [queue, scope, lane_priority]
-- gives (index in it, due of the first job or NULL) for each
SELECT
    each.key,
    (
        SELECT lane.due
        FROM lane
        WHERE lane.queue = json_extract(each.value, '$[0]')
            AND lane.scope = json_extract(each.value, '$[1]')
            AND lane.lane_priority = json_extract(each.value, '$[2]')
        ORDER BY lane.due
        LIMIT 1
    )
FROM json_each(?) AS each

-- fragment: walked
-- What the walk looks at, then what a claim says: `special` is expires_at, or NULL.
lane.due, lane.sequence, lane.number, lane.expires_at,
    {claimed}

-- name: rows
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 now, ?5 and ?6 the (due, sequence) to go on after,
-- ?7 limit
-- gives the due jobs of the lane in order
SELECT
    {walked}
FROM lane
CROSS JOIN job ON job.number = lane.number
WHERE lane.queue = ? AND lane.scope = ? AND lane.lane_priority = ?
    AND lane.due <= ? AND (lane.due, lane.sequence) > (?, ?)
ORDER BY lane.due, lane.sequence
LIMIT ?

-- name: row_in_line
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 line
-- gives its first job as rows does
SELECT
    lane.due, lane.sequence, lane.number, coalesce(lane.expires_at, -1.0),
    {claimed}
FROM held AS lane
CROSS JOIN job ON job.number = lane.number
WHERE lane.why = 'line' AND lane.queue = ? AND lane.scope = ? AND lane.lane_priority = ?
    AND lane.line = ?
ORDER BY lane.due, lane.sequence
LIMIT 1

-- name: lease
-- ?1 worker, ?2 its region, ?3 and ?4 now, ?5 queue, ?6 scope, ?7 lane_priority,
-- ?8 and ?9 the (due, sequence) of the first job, ?10 and ?11 of the last
INSERT INTO running (number, worker, worker_region, token, started_at, leased_at)
SELECT job.number, ?, ?, job.token + 1, ?, ?
FROM lane
CROSS JOIN job ON job.number = lane.number
WHERE lane.queue = ? AND lane.scope = ? AND lane.lane_priority = ?
    AND (lane.due, lane.sequence) BETWEEN (?, ?) AND (?, ?)

-- name: take
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 and ?5 the (due, sequence) of the first job,
-- ?6 and ?7 of the last
DELETE FROM lane
WHERE queue = ? AND scope = ? AND lane_priority = ?
    AND (due, sequence) BETWEEN (?, ?) AND (?, ?)

-- name: lease_in_lines
-- ?1 worker, ?2 its region, ?3 and ?4 now, ?5 numbers, a JSON array
INSERT INTO running (number, worker, worker_region, token, started_at, leased_at, limits)
SELECT job.number, ?, ?, job.token + 1, ?, ?, job.limits
FROM json_each(?) AS each
CROSS JOIN job ON job.number = each.value

-- name: leave_lines
-- ?1 numbers, a JSON array
DELETE FROM held WHERE number IN (SELECT value FROM json_each(?))

-- name: sooner
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 waited, ?5 the worker that asks, ?6 now
-- gives a row if another waits, alive, that may take from the lane sooner than after this wait
SELECT 1
FROM sleeper_lane AS l
JOIN sleeper AS s ON s.worker = l.worker
JOIN worker ON worker.id = s.worker
WHERE l.queue = ? AND l.scope = ? AND l.lane_priority = ?
    AND l.waited < ? AND l.worker <> ?
    AND (s.asleep = 1 OR s.woken = 1) AND worker.beat_at + worker.lease > ?
LIMIT 1
