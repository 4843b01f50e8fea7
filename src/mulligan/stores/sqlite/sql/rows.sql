-- Jobs as rules read and write them (stores/rules). Each pending, running or ended job has a row in
-- one of four more tables (lane, held, running, ended).

-- name: read
-- ?1 ids, a JSON array
-- gives {row} of those that are stored
SELECT
    {row}
FROM job
LEFT JOIN running ON running.number = job.number
LEFT JOIN ended ON ended.number = job.number
WHERE job.id IN (SELECT value FROM json_each(?))

-- name: holders
-- ?1 queue, ?2 unique keys, a JSON array
-- gives (unique_key, id) of the jobs that have these keys
SELECT unique_key, id
FROM job
WHERE key_queue = ? AND unique_key IN (SELECT value FROM json_each(?))

-- name: arrived
-- ?1 gathering job, ?2 gather_index
-- gives what has arrived there
SELECT CAST(result AS BLOB) FROM arrival WHERE job = ? AND gather_index = ?

-- name: delete_arrival
-- ?1 gathering job, ?2 gather_index
DELETE FROM arrival WHERE job = ? AND gather_index = ?

-- name: last_failure
-- ?1 job
-- gives the reason of its last failed attempt
SELECT type || ': ' || message FROM attempt WHERE job = ? ORDER BY id DESC LIMIT 1

-- name: recorded
-- ?1 a JSON array of [job, key]
-- gives (job, key, token, number) of the records under these keys
SELECT recorded.job, recorded.key, recorded.token, recorded.number
FROM json_each(?) AS each
CROSS JOIN recorded ON recorded.job = json_extract(each.value, '$[0]')
    AND recorded.key = json_extract(each.value, '$[1]')

-- name: delete_records
-- ?1 job
DELETE FROM recorded WHERE job = ? AND NOT (key >= 'log:' AND key < 'log;')

-- name: delete
-- ?1 numbers, a JSON array
-- gives the ids that were deleted
DELETE FROM job WHERE number IN (SELECT value FROM json_each(?)) RETURNING id

-- name: delete_attempts
-- ?1 jobs, a JSON array
DELETE FROM attempt WHERE job IN (SELECT value FROM json_each(?))

-- name: delete_arrivals
-- ?1 gathering jobs, a JSON array
DELETE FROM arrival WHERE job IN (SELECT value FROM json_each(?))

-- name: delete_all_records
-- ?1 jobs, a JSON array
DELETE FROM recorded WHERE job IN (SELECT value FROM json_each(?))

-- name: schedule
-- ?1 name
SELECT record FROM schedule WHERE name = ?

-- name: put_schedule
-- ?1 name, ?2 record
INSERT INTO schedule (name, record) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET record = excluded.record

-- name: delete_schedule
-- ?1 name
DELETE FROM schedule WHERE name = ?

-- name: delete_ended
-- ?1 number
DELETE FROM ended WHERE number = ?
