-- ?1 result, ?2 now, ?3 place
UPDATE job
SET status = 'done', committed = token, ended_at = ?2, worker = NULL, result = CAST(?1 AS TEXT)
WHERE place = ?3
