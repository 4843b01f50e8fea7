-- Where a pending job stands: one of four tables has a row for each job (lane, held, running, ended).

-- name: join_lanes
-- ?1 numbers, a JSON array
-- The jobs join the lanes that they are meant for, but for those that stand in lines. What has
-- started does not expire.
INSERT INTO lane (queue, scope, lane_priority, due, sequence, number, delayed, expires_at)
SELECT
    queue, scope, lane_priority, due, sequence, number, delayed,
    CASE WHEN retry_count = 0 AND snoozes = 0 AND replay = 0 THEN expires_at END
FROM job
WHERE number IN (SELECT value FROM json_each(?)) AND limits IS NULL AND fairness_key IS NULL

-- name: leave_lane
-- ?1 number
DELETE FROM lane
WHERE (queue, scope, lane_priority, due, sequence)
    = (SELECT queue, scope, lane_priority, due, sequence FROM job WHERE number = ?)

-- name: leave_held
-- ?1 number
DELETE FROM held WHERE number = ?

-- name: cancel
-- ?1 now, ?2 1 if a lease of it becomes stale, else 0, ?3 cancel_reason, ?4 now, ?5 number
INSERT INTO ended (
    number, queue, status, ended_at, token, started_at, worker_region, cancel_reason, keep_until
)
SELECT
    job.number, job.queue, 'cancelled', ?, coalesce(running.token, job.token) + ?,
    running.started_at, running.worker_region, ?, ? + job.keep
FROM job
LEFT JOIN running ON running.number = job.number
WHERE job.number = ?

