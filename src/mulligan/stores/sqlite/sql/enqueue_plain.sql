-- ?1 place, ?2 id, ?3 queue, ?4 task, ?5 region, ?6 priority, ?7 scope, ?8 lane_priority, ?9 due,
-- ?10 sequence, ?11 1 if it is due later than now, else 0, ?12 token, ?13 now, ?14 body
-- as enqueue, for a job without any of the options that only some have
INSERT INTO job (
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    created_at, body
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
