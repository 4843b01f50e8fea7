-- What operators and housekeeping do.

-- name: state
-- ?1 id
-- gives the state of the job; no row if it is not stored
SELECT
    number, status, queue, region, priority, coalesce(unique_in, queue), unique_key,
    concurrency_key, gather, awaits
FROM jobs
WHERE id = ?

-- name: replay
-- ?1 now, ?2 sequence, ?3 number
UPDATE job
SET retry_count = 0, snoozes = 0, trail = '', replay = replay + 1, delayed = 0, scope = region,
    lane_priority = priority, due = ?, sequence = ?,
    key_queue = CASE WHEN unique_key IS NOT NULL THEN coalesce(unique_in, queue) END
WHERE number = ?

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

-- name: expired
-- ?1 and ?2 now
-- gives (expires_at, number, id) of the first job to have expired in a lane, and held back from one
SELECT first.expires_at, first.number, job.id
FROM (
    SELECT * FROM (
        SELECT expires_at, number FROM lane WHERE expires_at <= ?
        ORDER BY expires_at, number LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT expires_at, number FROM held WHERE expires_at <= ?
        ORDER BY expires_at, number LIMIT 1
    )
) AS first
CROSS JOIN job ON job.number = first.number

-- name: prune
-- ?1 queue, ?2 status, ?3 ended before, ?4 limit
-- gives the numbers that were given up
DELETE FROM ended
WHERE number IN (
    SELECT number FROM ended
    WHERE queue = ? AND status = ? AND ended_at < ?
    ORDER BY ended_at
    LIMIT ?
)
RETURNING number

-- name: prune_notes
-- ?1 now
DELETE FROM note WHERE until <= ?

-- name: prune_counts
-- ?1 the first slot to keep
DELETE FROM recent_count WHERE slot < ?

-- name: prune_workers
-- ?1 stopped beating before
-- A worker that holds jobs is kept until they are reclaimed.
DELETE FROM worker
WHERE beat_at < ? AND NOT EXISTS (SELECT 1 FROM running WHERE running.worker = worker.id)

-- name: adopt
-- {adopted_columns} of a job of another store
-- A job that is there before it, by id or unique key, stays as it is.
INSERT INTO job ({adopted_columns}) VALUES ({adopted_marks}) ON CONFLICT DO NOTHING

-- name: adopt_failed
-- ?1 ended_at, ?2 number
INSERT INTO ended (number, queue, status, ended_at, token)
SELECT number, queue, 'failed', ?, token FROM job WHERE number = ?

-- name: keep_note
-- ?1 key, ?2 value, ?3 until
INSERT INTO note (key, value, until) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, until = excluded.until

-- name: forget_note
-- ?1 key
DELETE FROM note WHERE key = ?

-- name: list_notes
-- ?1 key to begin at, ?2 now
-- gives (key, value) of the notes from there on, in order of key
SELECT key, value FROM note WHERE key >= ? AND until > ? ORDER BY key
