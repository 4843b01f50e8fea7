-- Outcomes, and the history of failed attempts.

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
