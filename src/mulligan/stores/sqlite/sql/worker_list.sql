-- gives (worker as JSON, beat_at, joined_at, lease, running jobs) in the order of joining
SELECT
    CAST(body AS BLOB), beat_at, joined_at, lease,
    (SELECT count(*) FROM running WHERE running.worker = worker.id)
FROM worker
ORDER BY place
