-- ?1 first place, ?2 queue, ?3 task, ?4 region, ?5 priority, ?6 due, ?7 now, ?8 id and ?9 body of
-- the first job; its row is followed by that of the next, (?1 + 1, ?10, ?11), and so on
-- as enqueue_plain, for jobs that differ in id and body alone
WITH new (place, id, body) AS (VALUES (?1 + 0, ?8, ?9))
INSERT INTO job (
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    created_at, body
)
SELECT place, id, ?2, ?3, ?4, ?5, ?4, ?5, ?6, place, ?6 > ?7, place * 4096, ?7, body
FROM new
WHERE true
ON CONFLICT DO NOTHING
