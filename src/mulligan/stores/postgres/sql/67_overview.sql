-- overview: for people, with times as timestamps.
CREATE VIEW overview AS
SELECT id, queue, scope, lane_priority, task, status, retry_count, token, worker, held, awaits,
       to_timestamp(created_at / 1e6) AS created_at, to_timestamp(due / 1e6) AS due,
       to_timestamp(started_at / 1e6) AS started_at, to_timestamp(ended_at / 1e6) AS ended_at
FROM every_job;
