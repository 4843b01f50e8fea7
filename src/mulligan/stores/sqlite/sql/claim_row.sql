-- ?1 place
-- gives the job as claim_rows does
SELECT
    lane.due, lane.sequence, lane.place,
    job.id, job.token, job.task, CAST(job.body AS BLOB), job.region, job.priority,
    job.retry_count, job.replay, job.snoozes, job.trail,
    CASE
        WHEN job.concurrency_key IS NOT NULL OR lane.expires_at IS NOT NULL
            THEN json_array(job.concurrency_key, job.concurrency_limit, lane.expires_at)
    END
FROM job
CROSS JOIN lane
    ON lane.queue = job.queue AND lane.scope = job.scope AND lane.lane_priority = job.lane_priority
    AND lane.due = job.due AND lane.sequence = job.sequence
WHERE job.place = ?
