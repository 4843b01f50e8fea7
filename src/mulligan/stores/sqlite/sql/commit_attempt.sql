-- ?1 places, a JSON array
-- What is known of the attempt that was committed is kept with the job, which goes on.
UPDATE job
SET token = running.token, committed = running.token, started_at = running.started_at,
    worker_region = running.worker_region,
    last_retry_at = CASE WHEN retry_count > 0 THEN running.started_at ELSE last_retry_at END
FROM running
WHERE running.place = job.place AND job.place IN (SELECT value FROM json_each(?))
