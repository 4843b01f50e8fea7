-- ?1 now, ?2 1 if a lease of it becomes stale, else 0, ?3 cancel_reason, ?4 place
INSERT INTO ended (
    place, queue, status, ended_at, token, started_at, worker_region, cancel_reason
)
SELECT
    job.place, job.queue, 'cancelled', ?, coalesce(running.token, job.token) + ?,
    running.started_at, running.worker_region, ?
FROM job
LEFT JOIN running ON running.place = job.place
WHERE job.place = ?
