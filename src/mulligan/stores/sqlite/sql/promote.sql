-- ?1 now, ?2 limit
-- gives (id, place, concurrency_key) of jobs that expired before they could start
SELECT id, place, concurrency_key FROM job
WHERE status = 'pending' AND token = 0 AND expires_at <= ?1
ORDER BY expires_at
LIMIT ?2
