-- New jobs.

-- name: insert_plain
-- {plain_columns} of a new job
-- One that is there before it by id stays as it is.
INSERT INTO job ({plain_columns}) VALUES ({plain_marks}) ON CONFLICT DO NOTHING

-- name: insert_simple
-- {simple_columns} of a new job
-- as insert_plain, for a job whose options need no look at other jobs
INSERT INTO job ({simple_columns}) VALUES ({simple_marks}) ON CONFLICT DO NOTHING

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
-- The new jobs between them join their lanes, but for those that await others.
INSERT INTO lane (queue, scope, lane_priority, due, sequence, number, delayed, expires_at)
SELECT queue, scope, lane_priority, due, sequence, number, delayed, expires_at
FROM job
WHERE number BETWEEN ? AND ? AND awaits = 0

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

-- name: created
-- ?1 first number, ?2 last number
-- gives the numbers between them that are taken
SELECT number FROM job WHERE number BETWEEN ? AND ?

-- name: hold
-- ?1 first number, ?2 last number
-- The new jobs between them that await others are held until these have arrived.
INSERT INTO held (number, why, queue, scope, lane_priority, due, sequence, delayed, expires_at)
SELECT number, 'arrivals', queue, scope, lane_priority, due, sequence, delayed, expires_at
FROM job
WHERE number BETWEEN ? AND ? AND awaits > 0
