-- ?1 job, ?2 limit
-- gives the newest attempts, newest first, in the order of the fields of Attempt
SELECT number, replay, region, worker, started_at, type, message, code, delay, refused, ended_at
FROM attempt
WHERE job = ?
ORDER BY place DESC
LIMIT ?
