-- overview: for people, with times as timestamps.
CREATE VIEW overview AS
SELECT id, queue, scope, lane_priority, task, status, retry_count, token, worker,
       held AND awaits = 0 AS held, awaits,
       to_timestamp(created_at / 1e6) AS created_at, to_timestamp(due / 1e6) AS due,
       to_timestamp(started_at / 1e6) AS started_at, NULL::timestamptz AS ended_at
FROM job
UNION ALL
SELECT id, queue, scope, lane_priority, task, status, retry_count, token, NULL, false, awaits,
       to_timestamp(created_at / 1e6), to_timestamp(due / 1e6),
       to_timestamp(started_at / 1e6), to_timestamp(ended_at / 1e6)
FROM ended;
