-- ?1 ids, a JSON array
-- gives (id, place, status, queue, region, priority, unique_key, concurrency_key)
SELECT id, place, status, queue, region, priority, unique_key, concurrency_key
FROM job
WHERE id IN (SELECT value FROM json_each(?1))
