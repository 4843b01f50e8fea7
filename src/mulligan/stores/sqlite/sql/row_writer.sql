-- Changed rows, and where the jobs wait, run, or have ended.

-- name: leave_lane
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 due, ?5 sequence
DELETE FROM lane
WHERE queue = ? AND scope = ? AND lane_priority = ? AND due = ? AND sequence = ?

-- name: leave_held
-- ?1 number
DELETE FROM held WHERE number = ?

-- name: leave_ended
-- ?1 number
DELETE FROM ended WHERE number = ?

-- name: update
-- {changed} and ?1 number
UPDATE job SET {changed} WHERE number = ?

-- name: replace_call
-- ?1 task, ?2 body, ?3 number
UPDATE job SET task = ?, body = ? WHERE number = ?

-- name: free_key
-- ?1 number
UPDATE job SET key_queue = NULL WHERE number = ?

-- name: take_key
-- ?1 key_queue, ?2 number
UPDATE job SET key_queue = ? WHERE number = ?

-- name: insert_plain
-- {plain_columns} of a new job that has no options
INSERT INTO job ({plain_columns}) VALUES ({plain_marks})

-- name: insert_new
-- {new_columns} of a new job
INSERT INTO job ({new_columns}) VALUES ({new_marks})

-- name: insert_adopted
-- {adopted_columns} of a job of another store
INSERT INTO job ({adopted_columns}) VALUES ({adopted_marks})

-- name: enter_lane
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 due, ?5 sequence, ?6 number, ?7 delayed, ?8 expires_at
INSERT INTO lane (queue, scope, lane_priority, due, sequence, number, delayed, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: end
-- ?1 number, ?2 queue, ?3 status, ?4 ended_at, ?5 token, ?6 started_at, ?7 worker_region, ?8 result,
-- ?9 cancel_reason, ?10 keep_until
INSERT INTO ended (
    number, queue, status, ended_at, token, started_at, worker_region, result, cancel_reason,
    keep_until
)
VALUES (?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?)

-- name: add_arrival
-- ?1 gathering job, ?2 gather_index, ?3 result
INSERT INTO arrival (job, gather_index, result) VALUES (?, ?, CAST(? AS TEXT)) ON CONFLICT DO NOTHING

-- name: add_attempt
-- {attempt_row} of a failed or lost attempt
INSERT INTO attempt ({attempt_row}) VALUES ({attempt_marks})

-- name: trim_attempts
-- ?1 and ?2 job, ?3 how many of its newest attempts to keep
DELETE FROM attempt
WHERE job = ? AND id <= (
    SELECT id FROM attempt WHERE job = ? ORDER BY id DESC LIMIT 1 OFFSET ?
)

-- name: put_record
-- ?1 job, ?2 key, ?3 token, ?4 number, ?5 at, ?6 value
INSERT INTO recorded (job, key, token, number, at, value) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (job, key) DO UPDATE
SET token = excluded.token, number = excluded.number, at = excluded.at, value = excluded.value

-- name: trim_log
-- ?1 and ?2 job, ?3 how many lines of its log to keep
DELETE FROM recorded
WHERE job = ? AND key < (
    SELECT key FROM recorded
    WHERE job = ? AND key >= 'log:' AND key < 'log;'
    ORDER BY key DESC
    LIMIT 1 OFFSET ? - 1
) AND key >= 'log:'

-- name: hold
-- ?1 numbers, a JSON array
-- The jobs, which await others, are held until these have arrived.
INSERT INTO held (number, why, queue, scope, lane_priority, due, sequence, delayed, expires_at)
SELECT number, 'arrivals', queue, scope, lane_priority, due, sequence, delayed, expires_at
FROM job
WHERE number IN (SELECT value FROM json_each(?))
