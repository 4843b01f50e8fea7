-- ?1 concurrency_key, ?2 concurrency_limit, ?3 trail, ?4 place
UPDATE job
SET concurrency_key = ?, concurrency_limit = ?, trail = ?
WHERE place = ?
