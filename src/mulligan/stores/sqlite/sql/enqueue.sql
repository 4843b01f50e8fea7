-- New jobs.

-- name: insert
-- {columns} of a new job
-- A job that is there before it, by id or unique key, stays as it is. One that awaits others has
-- no sequence before it joins its lane.
INSERT INTO job ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING

-- name: insert_plain
-- {plain_columns} of a new job
-- as insert, for a job without any of the options that only some have
INSERT INTO job ({plain_columns}) VALUES ({plain_marks}) ON CONFLICT DO NOTHING

-- name: insert_alike
-- number, id and body of each job in {own_rows}, then in {alike} what all have in common
-- as insert_plain, for jobs that differ in id and body alone; INSERT comes first, since the driver
-- counts rows only then
INSERT INTO job ({plain_columns})
WITH new (number, id, body) AS (VALUES {own_rows})
SELECT {alike}
FROM new
WHERE true
ON CONFLICT DO NOTHING

-- name: join_lanes
-- ?1 first number, ?2 last number
-- The new jobs between them join their lanes, but for those that stand in lines or await others.
INSERT INTO lane (queue, scope, lane_priority, due, sequence, number, delayed, expires_at)
SELECT queue, scope, lane_priority, due, sequence, number, delayed, expires_at
FROM job
WHERE number BETWEEN ? AND ? AND awaits = 0 AND limits IS NULL AND fairness_key IS NULL

-- name: join_lane
-- ?1 queue, ?2 region, ?3 priority, ?4 due, ?5 1 if it is later than now, else 0,
-- ?6 first number, ?7 last number
-- as join_lanes, for new jobs that are alike and await nothing: nothing is read of them but that
-- they are there
INSERT INTO lane (queue, scope, lane_priority, due, sequence, number, delayed)
SELECT ?, ?, ?, ?, number, number, ?
FROM job
WHERE number BETWEEN ? AND ?

-- name: join_alone
-- ?1 queue, ?2 region, ?3 priority, ?4 due, ?5 and ?6 number, ?7 1 if it is due later than now, else 0
-- as join_lane, for one job that is known to be there
INSERT INTO lane (queue, scope, lane_priority, due, sequence, number, delayed)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: hold
-- ?1 first number, ?2 last number
-- The new jobs between them that await others are held until these have arrived.
INSERT INTO held (number, why, queue, scope, lane_priority, due, sequence, delayed, expires_at)
SELECT number, 'arrivals', queue, scope, lane_priority, due, sequence, delayed, expires_at
FROM job
WHERE number BETWEEN ? AND ? AND awaits > 0

-- name: created
-- ?1 first number, ?2 last number
-- gives the numbers between them that are taken
SELECT number FROM job WHERE number BETWEEN ? AND ?

-- name: is_stored
-- ?1 id, ?2 number
-- gives a row if a job of this id was stored before that number was given
SELECT 1 FROM job WHERE id = ? AND number < ?

-- name: free_lent_key
-- ?1 queue of the key, ?2 unique_key, ?3 now
-- Who has the key gives it up, if it has it no longer than until now.
UPDATE job SET key_queue = NULL
WHERE number IN (
    SELECT number FROM lent_key WHERE key_queue = ? AND unique_key = ? AND until <= ?
)

-- name: debounced
-- ?1 id
-- gives (number, debounce_until, whether it stands in its lane itself, queue, scope, lane_priority)
-- of the job if it is debounced; it waits to start
SELECT
    number, debounce_until, limits IS NULL AND fairness_key IS NULL, queue, scope, lane_priority
FROM job
WHERE id = ? AND debounce_until IS NOT NULL

-- name: call_anew
-- ?1 task, ?2 body, ?3 number
UPDATE job SET task = ?, body = ? WHERE number = ?

-- name: put_off
-- ?1 due, ?2 sequence, ?3 1 if it is later than now, else 0, ?4 number
UPDATE job SET due = ?, sequence = ?, delayed = ? WHERE number = ?

-- name: unique_holder
-- ?1 queue of the key, ?2 unique_key
-- gives the id of the job that has the key
SELECT id FROM job WHERE key_queue = ? AND unique_key = ?
