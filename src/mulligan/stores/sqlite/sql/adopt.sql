-- ?1 place, ?2 id, ?3 queue, ?4 task, ?5 region, ?6 priority, ?7 scope, ?8 lane_priority, ?9 due,
-- ?10 sequence, ?11 delayed, ?12 token, ?13 retry_count, ?14 replay, ?15 snoozes, ?16 trail,
-- ?17 created_at, ?18 started_at, ?19 last_retry_at, ?20 expires_at, ?21 unique_key,
-- ?22 unique_in, ?23 key_queue, ?24 concurrency_key, ?25 concurrency_limit, ?26 awaits,
-- ?27 gather, ?28 gather_index, ?29 body
-- A job that is there before it, by id or unique key, stays as it is.
INSERT INTO job (
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    retry_count, replay, snoozes, trail, created_at, started_at, last_retry_at, expires_at,
    unique_key, unique_in, key_queue, concurrency_key, concurrency_limit, awaits, gather,
    gather_index, body
)
VALUES (
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?
)
ON CONFLICT DO NOTHING
