-- ?1 place, ?2 now, ?3 reason
-- gives the job that awaits it
UPDATE job SET status = 'cancelled', ended_at = ?2, worker = NULL, cancel_reason = ?3
WHERE place = ?1
RETURNING gather
