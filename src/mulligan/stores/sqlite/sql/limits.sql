-- Permits, starts, and the jobs that wait for a concurrency key.

-- name: any_permits
-- gives 1 if any job holds a permit, or is held until one is free
SELECT EXISTS (SELECT 1 FROM permit) OR EXISTS (SELECT 1 FROM held WHERE why = 'key')

-- name: permits_of
-- ?1 job
-- gives the keys of its permits
SELECT key FROM permit WHERE job = ?

-- name: free
-- ?1 job
DELETE FROM permit WHERE job = ?

-- name: used
-- ?1 key
-- gives how many permits of it are held
SELECT count(*) FROM permit WHERE key = ?

-- name: charge
-- ?1 key, ?2 job
INSERT INTO permit (key, job) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: next_held
-- ?1 concurrency key, ?2 queue, ?3 scope, ?4 lane_priority, ?5 limit to go on after
-- gives (queue, scope, lane_priority, limit, due, number) of the first held job of the next group
SELECT queue, scope, lane_priority, concurrency_limit, due, number
FROM held
WHERE why = 'key' AND concurrency_key = ?
    AND (queue, scope, lane_priority, concurrency_limit) > (?, ?, ?, ?)
ORDER BY queue, scope, lane_priority, concurrency_limit, due, sequence
LIMIT 1

-- name: starts
-- ?1 key, ?2 since
-- gives (when, how many) of starts after that, in order
SELECT at, count FROM start WHERE key = ? AND at > ? ORDER BY at

-- name: count_start
-- ?1 key, ?2 at, ?3 how many
INSERT INTO start (key, at, count) VALUES (?, ?, ?)
ON CONFLICT (key, at) DO UPDATE SET count = count + excluded.count

-- name: prune_starts
-- ?1 key, ?2 until
DELETE FROM start WHERE key = ? AND at <= ?
