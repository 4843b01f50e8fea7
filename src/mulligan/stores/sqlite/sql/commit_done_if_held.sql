-- ?1 now, ?2 [id, token, result] of each job, a JSON array
-- changes nothing where the lease is not held, or the job is to arrive somewhere
UPDATE job
SET status = 'done', committed = token, ended_at = ?1, worker = NULL,
    result = json_extract(outcome.value, '$[2]')
FROM json_each(?2) AS outcome
WHERE job.id = json_extract(outcome.value, '$[0]')
    AND job.token = json_extract(outcome.value, '$[1]')
    AND job.status = 'processing' AND job.gather IS NULL
