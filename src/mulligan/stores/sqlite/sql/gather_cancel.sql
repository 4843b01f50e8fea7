-- ?1 now, ?2 reason, ?3 id
-- gives (concurrency_key, the job that awaits it in turn); no row if it awaits none
UPDATE job
SET status = 'cancelled', token = token + 1, ended_at = ?1, held = 0, cancel_reason = ?2
WHERE id = ?3 AND status = 'pending' AND held = 2
RETURNING concurrency_key, gather
