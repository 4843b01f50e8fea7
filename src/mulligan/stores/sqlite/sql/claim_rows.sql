-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 now, ?5 and ?6 the (due, sequence) to go on after,
-- ?7 limit
-- gives the due jobs of the lane in order: due, sequence, place, what a claim says of each, and
-- [concurrency_key, its limit, expires_at] as JSON where one of them concerns it, else NULL
SELECT
    lane.due, lane.sequence, lane.place,
    job.id, job.token, job.task, CAST(job.body AS BLOB), job.region, job.priority,
    job.retry_count, job.replay, job.snoozes, job.trail,
    CASE
        WHEN job.concurrency_key IS NOT NULL OR lane.expires_at IS NOT NULL
            THEN json_array(job.concurrency_key, job.concurrency_limit, lane.expires_at)
    END
FROM lane
CROSS JOIN job ON job.place = lane.place
WHERE lane.queue = ? AND lane.scope = ? AND lane.lane_priority = ?
    AND lane.due <= ? AND (lane.due, lane.sequence) > (?, ?)
ORDER BY lane.due, lane.sequence
LIMIT ?
