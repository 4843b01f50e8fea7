-- ?1 now, ?2 reason, ?3 place
UPDATE job
SET status = 'cancelled', token = token + 1, ended_at = ?1, worker = NULL, held = 0,
    cancel_reason = ?2
WHERE place = ?3
