-- ?1 status, ?2 cancel_reason, ?3 now, ?4 place
UPDATE job
SET status = ?1, committed = token, ended_at = ?3, worker = NULL,
    cancel_reason = coalesce(?2, cancel_reason)
WHERE place = ?4
