-- ?1 place, ?2 status, ?3 result, ?4 cancel_reason, ?5 now
INSERT INTO ended (
    place, queue, status, ended_at, token, started_at, worker_region, result, cancel_reason
)
SELECT
    running.place, job.queue, ?2, ?5, running.token, running.started_at, running.worker_region,
    CAST(?3 AS TEXT), ?4
FROM running
CROSS JOIN job ON job.place = running.place
WHERE running.place = ?1
