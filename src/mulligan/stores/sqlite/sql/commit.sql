-- Outcomes, and the history of failed attempts.

-- name: rows
-- ?1 ids, a JSON array
-- gives (id, number, its token if it runs, committed, limits, fairness_key, limits of which it holds
-- permits, started_at, gather, gather_index, queue, scope, lane_priority, due, retry_count) of those
-- that are stored
SELECT
    job.id, job.number, running.token,
    CASE WHEN ended.status = 'done' THEN ended.token ELSE job.committed END,
    job.limits, job.fairness_key, running.limits, running.started_at,
    job.gather, job.gather_index,
    job.queue, job.scope, job.lane_priority, job.due, job.retry_count
FROM job
LEFT JOIN running ON running.number = job.number
LEFT JOIN ended ON ended.number = job.number
WHERE job.id IN (SELECT value FROM json_each(?))

-- name: done_if_held
-- ?1 and ?2 now, ?3 a JSON object: the token of each job by its id, or text: the token, a space, the
-- result, ?4 tokens per number
-- Ends all or none. A lease that is not held, or a job that is to arrive somewhere, finds no job, and
-- `ended` takes no row without a queue. Nothing is done while there are permits of plans to be freed.
INSERT INTO ended (
    number, queue, status, ended_at, token, started_at, worker_region, result, keep_until
)
SELECT
    running.number, job.queue, 'done', ?, running.token, running.started_at,
    running.worker_region,
    CASE outcome.type WHEN 'text' THEN substr(outcome.value, instr(outcome.value, ' ') + 1) END,
    ? + job.keep
FROM json_each(?) AS outcome
LEFT JOIN running
    ON running.number = CAST(outcome.value AS INTEGER) / ?
    AND running.token = CAST(outcome.value AS INTEGER)
LEFT JOIN job ON job.number = running.number AND job.id = outcome.key AND job.gather IS NULL
WHERE NOT EXISTS (SELECT 1 FROM permit)

-- name: held
-- ?1 numbers, a JSON array
-- gives (limits of which they hold permits, how many of these jobs do)
SELECT running.limits, count(*)
FROM json_each(?) AS each
CROSS JOIN running ON running.number = each.value
WHERE running.limits IS NOT NULL AND EXISTS (SELECT 1 FROM limit_state)
GROUP BY running.limits

-- name: keep_attempt
-- ?1 numbers, a JSON array
-- What is known of the attempt that was committed is kept with the job, which goes on.
UPDATE job
SET token = running.token, committed = running.token, started_at = running.started_at,
    worker_region = running.worker_region,
    last_retry_at = CASE WHEN retry_count > 0 THEN running.started_at ELSE last_retry_at END
FROM running
WHERE running.number = job.number AND job.number IN (SELECT value FROM json_each(?))

-- name: end
-- ?1 status, ?2 now, ?3 result, ?4 cancel_reason, ?5 now unless it failed, ?6 number
INSERT INTO ended (
    number, queue, status, ended_at, token, started_at, worker_region, result, cancel_reason,
    keep_until
)
SELECT
    running.number, job.queue, ?, ?, running.token, running.started_at, running.worker_region,
    CAST(? AS TEXT), ?, ? + job.keep
FROM running
CROSS JOIN job ON job.number = running.number
WHERE running.number = ?

-- name: put_off
-- ?1 scope, ?2 lane_priority, ?3 due, ?4 sequence, ?5 delayed, ?6 retries to add,
-- ?7 snoozes to add, ?8 trail, NULL to keep what there is, ?9 number
UPDATE job
SET scope = ?, lane_priority = ?, due = ?, sequence = ?, delayed = ?,
    retry_count = retry_count + ?, snoozes = snoozes + ?, trail = coalesce(?, trail)
WHERE number = ?

-- name: set_limits
-- ?1 limits, ?2 fairness_key, ?3 trail, ?4 number
UPDATE job
SET limits = ?, fairness_key = ?, trail = ?
WHERE number = ?

-- name: add_attempt
-- {attempt_row} of a failed or lost attempt
INSERT INTO attempt ({attempt_row}) VALUES ({attempt_marks})

-- name: trim_attempts
-- ?1 and ?2 job, ?3 how many of its newest attempts to keep
DELETE FROM attempt
WHERE job = ? AND id <= (
    SELECT id FROM attempt WHERE job = ? ORDER BY id DESC LIMIT 1 OFFSET ?
)
