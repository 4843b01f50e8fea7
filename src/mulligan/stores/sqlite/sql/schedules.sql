-- Schedules: a record each, and their ticks.

-- name: records
-- gives (name, record) of every schedule
SELECT name, record FROM schedule ORDER BY name

-- name: record
-- ?1 name
SELECT record FROM schedule WHERE name = ?

-- name: keep
-- ?1 name, ?2 record
INSERT INTO schedule (name, record) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET record = excluded.record

-- name: forget
-- ?1 name
DELETE FROM schedule WHERE name = ?

-- name: unstarted
-- ?1 id
-- gives a row if the job is pending and no attempt has come of it so far
SELECT 1 FROM jobs
WHERE id = ? AND status = 'pending' AND retry_count = 0 AND snoozes = 0 AND replay = 0
