-- ?1 now, ?2 a JSON object: the token of each job by its id, or text: the token, a space, the result,
-- ?3 tokens per place
-- adds nothing where the lease is not held, or the job is to arrive somewhere
INSERT INTO ended (place, queue, status, ended_at, token, started_at, worker_region, result)
SELECT
    running.place, job.queue, 'done', ?1, running.token, running.started_at, running.worker_region,
    CASE outcome.type WHEN 'text' THEN substr(outcome.value, instr(outcome.value, ' ') + 1) END
FROM json_each(?2) AS outcome
CROSS JOIN running
    ON running.place = CAST(outcome.value AS INTEGER) / ?3
    AND running.token = CAST(outcome.value AS INTEGER)
CROSS JOIN job ON job.place = running.place AND job.id = outcome.key
WHERE job.gather IS NULL
