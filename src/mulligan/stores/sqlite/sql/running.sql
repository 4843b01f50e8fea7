-- ?1 worker
-- gives (id, token, leased_at) of the jobs that it holds, the longest running first
SELECT job.id, running.token, running.leased_at
FROM running
CROSS JOIN job ON job.place = running.place
WHERE running.worker = ?1
ORDER BY running.started_at, job.sequence
