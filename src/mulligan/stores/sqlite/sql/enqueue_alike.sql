-- ?1 first place, ?2 queue, ?3 task, ?4 region, ?5 priority, ?6 due, ?7 now, ?8 tokens per place,
-- ?9 id and ?10 body of the first job; its row is followed by that of the next, (?1 + 1, ?11, ?12),
-- and so on
-- as enqueue_plain, for jobs that differ in id and body alone; INSERT comes first, since the driver
-- counts rows only then
INSERT INTO job (
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    created_at, body
)
WITH new (place, id, body) AS (VALUES (?1 + 0, ?9, ?10))
SELECT place, id, ?2, ?3, ?4, ?5, ?4, ?5, ?6, place, ?6 > ?7, place * ?8, ?7, body
FROM new
WHERE true
ON CONFLICT DO NOTHING
