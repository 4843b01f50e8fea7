-- gives 1 if any job has a unique key and has not ended
SELECT EXISTS (SELECT 1 FROM job WHERE key_queue IS NOT NULL)
