-- ?1 now, ?2 a JSON object: the token of each job by its id, or text: the token, a space, the result,
-- ?3 tokens per place
-- Ends all or none. A lease that is not held, or a job that is to arrive somewhere, finds no job, and
-- `ended` takes no row without a queue. Nothing is done while there are permits to be freed.
INSERT INTO ended (place, queue, status, ended_at, token, started_at, worker_region, result)
SELECT
    running.place, job.queue, 'done', ?, running.token, running.started_at, running.worker_region,
    CASE outcome.type WHEN 'text' THEN substr(outcome.value, instr(outcome.value, ' ') + 1) END
FROM json_each(?) AS outcome
LEFT JOIN running
    ON running.place = CAST(outcome.value AS INTEGER) / ?
    AND running.token = CAST(outcome.value AS INTEGER)
LEFT JOIN job ON job.place = running.place AND job.id = outcome.key AND job.gather IS NULL
WHERE NOT EXISTS (SELECT 1 FROM permit) AND NOT EXISTS (SELECT 1 FROM held WHERE why = 'key')
