-- ?1 worker, ?2 its region, ?3 now, ?4 places, a JSON array
UPDATE job
SET status = 'processing', token = token + 1, worker = ?1, worker_region = ?2, started_at = ?3,
    leased_at = ?3, last_retry_at = CASE WHEN retry_count > 0 THEN ?3 ELSE last_retry_at END
WHERE place IN (SELECT value FROM json_each(?4))
