-- ?1 queue of the key, ?2 unique_key
-- gives the id of the job that has the key and has not ended
SELECT id FROM job WHERE key_queue = ? AND unique_key = ?
