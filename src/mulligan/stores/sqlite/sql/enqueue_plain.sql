-- ?1 place, ?2 id, ?3 queue, ?4 task, ?5 region, ?6 priority, ?7 due, ?8 now, ?9 token, ?10 body
-- as enqueue, for a job without any of the options that only some have
INSERT INTO job (
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    created_at, body
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?5, ?6, ?7, ?1, ?7 > ?8, ?9, ?8, ?10)
ON CONFLICT DO NOTHING
