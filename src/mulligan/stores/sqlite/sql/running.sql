-- ?1 worker
-- gives (id, token, leased_at) of the jobs that it holds, the longest running first
SELECT id, token, leased_at FROM job
WHERE status = 'processing' AND worker = ?1
ORDER BY started_at, sequence
