-- ?1 place and sequence, ?2 id, ?3 queue, ?4 task, ?5 region, ?6 priority, ?7 due, ?8 delayed,
-- ?9 now, ?10 expires_at, ?11 unique_key, ?12 concurrency_key, ?13 concurrency_limit, ?14 body
-- A job that is there before it, by id or unique key, stays as it is.
INSERT INTO job (
    place, id, queue, task, region, priority, status, scope, lane_priority, due, sequence, delayed,
    created_at, expires_at, unique_key, concurrency_key, concurrency_limit, body
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?5, ?6, ?7, ?1, ?8,
    ?9, ?10, ?11, ?12, ?13, CAST(?14 AS TEXT)
)
ON CONFLICT DO NOTHING
