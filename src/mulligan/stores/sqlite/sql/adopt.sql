-- ?1 place, ?2 id, ?3 queue, ?4 task, ?5 region, ?6 priority, ?7 status, ?8 scope,
-- ?9 lane_priority, ?10 due, ?11 sequence, ?12 delayed, ?13 token, ?14 retry_count, ?15 replay,
-- ?16 snoozes, ?17 trail, ?18 created_at, ?19 started_at, ?20 last_retry_at, ?21 ended_at,
-- ?22 expires_at, ?23 unique_key, ?24 unique_in, ?25 concurrency_key, ?26 concurrency_limit,
-- ?27 awaits, ?28 gather, ?29 gather_place, ?30 body
-- A job that is there before it, by id or unique key, stays as it is.
INSERT INTO job (
    place, id, queue, task, region, priority, status, scope, lane_priority, due, sequence, delayed,
    held, token, committed, retry_count, replay, snoozes, trail, created_at, started_at,
    last_retry_at, ended_at, expires_at, unique_key, unique_in, concurrency_key, concurrency_limit,
    awaits, gather, gather_place, body
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, iif(?27, 2, 0), ?13, ?13, ?14, ?15, ?16, ?17,
    ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, CAST(?30 AS TEXT)
)
ON CONFLICT DO NOTHING
