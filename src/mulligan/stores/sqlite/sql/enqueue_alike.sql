-- ?1 place, ?2 id, ?3 body of the first job, whose row those of the others follow; ?4 queue, ?5 task,
-- ?6 region, ?7 priority, ?8 scope, ?9 lane_priority, ?10 due, ?11 1 if it is later than now, else 0,
-- ?12 tokens per place, ?13 now
-- as enqueue_plain, for jobs that differ in id and body alone; INSERT comes first, since the driver
-- counts rows only then
INSERT INTO job (
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    created_at, body
)
WITH new (place, id, body) AS (VALUES (?, ?, ?))
SELECT place, id, ?, ?, ?, ?, ?, ?, ?, place, ?, place * ?, ?, body
FROM new
WHERE true
ON CONFLICT DO NOTHING
