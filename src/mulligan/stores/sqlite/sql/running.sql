-- ?1 worker
-- gives (id, token, leased_at, 1 if it was reclaimed) of the jobs that it holds, the longest running
-- first: only the lease of a claim begins with the attempt
SELECT
    job.id, running.token, running.leased_at, running.leased_at IS NOT running.started_at
FROM running
CROSS JOIN job ON job.place = running.place
WHERE running.worker = ?
ORDER BY running.started_at, job.sequence
