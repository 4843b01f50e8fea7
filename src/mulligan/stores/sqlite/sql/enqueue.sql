-- ?1 place, ?2 id, ?3 queue, ?4 task, ?5 region, ?6 priority, ?7 scope, ?8 lane_priority, ?9 due,
-- ?10 sequence, ?11 1 if it is due later than now, else 0, ?12 token, ?13 now, ?14 body,
-- ?15 expires_at, ?16 unique_key, ?17 unique_in, ?18 key_queue, ?19 concurrency_key,
-- ?20 concurrency_limit, ?21 awaits, ?22 gather, ?23 gather_index
-- A job that is there before it, by id or unique key, stays as it is. One that awaits others has
-- no sequence before it joins its lane.
INSERT INTO job (
    place, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed, token,
    created_at, body, expires_at, unique_key, unique_in, key_queue, concurrency_key,
    concurrency_limit, awaits, gather, gather_index
)
VALUES (
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?
)
ON CONFLICT DO NOTHING
