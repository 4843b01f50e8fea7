-- gives (worker as JSON, beat_at, joined_at, lease, running jobs) in the order of joining
SELECT
    CAST(body AS BLOB), beat_at, joined_at, lease,
    (SELECT count(*) FROM job WHERE job.worker = worker.id AND job.status = 'processing')
FROM worker
ORDER BY place
