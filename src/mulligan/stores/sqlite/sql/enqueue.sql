-- ?1 place, ?2 id, ?3 queue, ?4 task, ?5 region, ?6 priority, ?7 due, ?8 delayed, ?9 now,
-- ?10 expires_at, ?11 unique_key, ?12 unique_in, ?13 concurrency_key, ?14 concurrency_limit,
-- ?15 awaits, ?16 gather, ?17 gather_place, ?18 body
-- A job that is there before it, by id or unique key, stays as it is. One that awaits others has
-- no sequence before it joins its lane.
INSERT INTO job (
    place, id, queue, task, region, priority, status, scope, lane_priority, due, sequence, delayed,
    held, created_at, expires_at, unique_key, unique_in, concurrency_key, concurrency_limit,
    awaits, gather, gather_place, body
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, 'pending', ?5, ?6, ?7, iif(?15, 0, ?1), ?8,
    iif(?15, 2, 0), ?9, ?10, ?11, ?12, ?13, ?14,
    ?15, ?16, ?17, CAST(?18 AS TEXT)
)
ON CONFLICT DO NOTHING
