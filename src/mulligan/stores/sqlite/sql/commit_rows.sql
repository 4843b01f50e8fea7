-- ?1 ids, a JSON array
-- gives (id, place, token, committed, whether it runs, concurrency_key, gather, gather_place,
-- queue, scope, lane_priority, due) of those that are stored
SELECT id, place, token, committed, status = 'processing', concurrency_key, gather, gather_place,
    queue, scope, lane_priority, due
FROM job
WHERE id IN (SELECT value FROM json_each(?1))
