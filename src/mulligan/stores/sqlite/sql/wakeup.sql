-- Workers that sleep, and what for.

-- name: sleep
-- ?1 worker, ?2 until, ?3 the socket that it listens at, ?4 mark of its plan
INSERT INTO sleeper (worker, asleep, woken, until, socket, plan) VALUES (?, 1, 0, ?, ?, ?)
ON CONFLICT (worker) DO UPDATE
SET asleep = 1, woken = 0, until = excluded.until, socket = excluded.socket, plan = excluded.plan

-- name: awake
-- ?1 worker
UPDATE sleeper SET asleep = 0, woken = 0 WHERE worker = ?

-- name: forget
-- ?1 worker
DELETE FROM sleeper WHERE worker = ?

-- name: forget_lanes
-- ?1 worker
DELETE FROM sleeper_lane WHERE worker = ?

-- name: forget_limits
-- ?1 worker
DELETE FROM sleeper_limit WHERE worker = ?

-- name: add_lane
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 worker, ?5 waited, ?6 yields
INSERT INTO sleeper_lane (queue, scope, lane_priority, worker, waited, yields)
VALUES (?, ?, ?, ?, ?, ?)

-- name: add_limit
-- ?1 limit's key, ?2 worker
INSERT INTO sleeper_limit (key, worker) VALUES (?, ?)

-- name: in_lane
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 now
-- gives (worker, socket, waited, yields, until, asleep) of those who wait for the lane and are
-- alive, asleep or woken, who may take from it soonest first
SELECT s.worker, s.socket, l.waited, l.yields, s.until, s.asleep
FROM sleeper_lane AS l
JOIN sleeper AS s ON s.worker = l.worker
JOIN worker ON worker.id = s.worker
WHERE l.queue = ? AND l.scope = ? AND l.lane_priority = ?
    AND (s.asleep = 1 OR s.woken = 1) AND worker.beat_at + worker.lease > ?
ORDER BY l.waited, s.rowid

-- name: at_limit
-- ?1 limit's key, ?2 a worker to leave out, ?3 now
-- gives (worker, socket) of the limit's sleepers that are alive
SELECT s.worker, s.socket
FROM sleeper_limit AS l
JOIN sleeper AS s ON s.worker = l.worker
JOIN worker ON worker.id = s.worker
WHERE l.key = ?
    AND s.asleep = 1 AND s.worker IS NOT ? AND worker.beat_at + worker.lease > ?
ORDER BY s.rowid

-- name: wake
-- ?1 workers, a JSON array
UPDATE sleeper SET asleep = 0, woken = 1 WHERE worker IN (SELECT value FROM json_each(?))

-- name: wake_all
-- ?1 a worker to leave out
-- gives (worker, socket) of all who slept
UPDATE sleeper SET asleep = 0, woken = 1
WHERE asleep = 1 AND worker IS NOT ?
RETURNING worker, socket

-- name: is_woken
-- ?1 worker
-- gives a row if it was woken since its last claim
SELECT 1 FROM sleeper WHERE worker = ? AND woken = 1

-- name: orphaned
-- ?1 now
-- gives the sleepers that have stopped beating
SELECT s.worker
FROM sleeper AS s
LEFT JOIN worker AS alive ON alive.id = s.worker AND alive.beat_at + alive.lease > ?
WHERE alive.id IS NULL

-- name: lanes_of
-- ?1 worker
-- gives (queue, scope, lane_priority) of the lanes that it waits for, asleep or woken
SELECT l.queue, l.scope, l.lane_priority
FROM sleeper AS s
JOIN sleeper_lane AS l ON l.worker = s.worker
WHERE s.worker = ? AND (s.asleep = 1 OR s.woken = 1)
