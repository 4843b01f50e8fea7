-- ?1 place, ?2 id, ?3 queue, ?4 task, ?5 region, ?6 priority, ?7 due, ?8 now, ?9 token, ?10 body,
-- ?11 expires_at, ?12 unique_key, ?13 unique_in, ?14 concurrency_key, ?15 concurrency_limit,
-- ?16 awaits, ?17 gather, ?18 gather_place
-- A job that is there before it, by id or unique key, stays as it is. One that awaits others has
-- no sequence before it joins its lane.
INSERT INTO job (
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    created_at, body, expires_at, unique_key, unique_in, key_queue, concurrency_key,
    concurrency_limit, awaits, gather, gather_place
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?5, ?6, ?7, iif(?16, 0, ?1), ?7 > ?8, ?9,
    ?8, ?10, ?11, ?12, ?13, iif(?12 IS NULL, NULL, coalesce(?13, ?3)), ?14,
    ?15, ?16, ?17, ?18
)
ON CONFLICT DO NOTHING
