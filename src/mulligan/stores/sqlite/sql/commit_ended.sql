-- ?1 status, ?2 now, ?3 result, ?4 cancel_reason, ?5 place
INSERT INTO ended (
    place, queue, status, ended_at, token, started_at, worker_region, result, cancel_reason
)
SELECT
    running.place, job.queue, ?, ?, running.token, running.started_at, running.worker_region,
    CAST(? AS TEXT), ?
FROM running
CROSS JOIN job ON job.place = running.place
WHERE running.place = ?
