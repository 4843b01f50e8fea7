-- ?1 place, ?2 cancel_reason, ?3 now, ?4 1 if a lease of it becomes stale, else 0
INSERT INTO ended (
    place, queue, status, ended_at, token, started_at, worker_region, cancel_reason
)
SELECT
    job.place, job.queue, 'cancelled', ?3, coalesce(running.token, job.token) + ?4,
    running.started_at, running.worker_region, ?2
FROM job
LEFT JOIN running ON running.place = job.place
WHERE job.place = ?1
