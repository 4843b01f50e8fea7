-- ?1 now
-- gives the id of the next job that expired before it could start
SELECT id FROM job
WHERE status = 'pending' AND token = 0 AND expires_at <= ?1
ORDER BY expires_at, place
LIMIT 1
