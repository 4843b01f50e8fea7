-- every_job: living and ended jobs in one shape, as a reader sees them.
CREATE VIEW every_job AS
SELECT e.*, (
    SELECT a.failure FROM attempt a WHERE e.failures > 0 AND a.job = e.id
    ORDER BY a.ordinal DESC LIMIT 1
) AS last_failure
FROM (
    SELECT id, queue, task, region, priority, status, scope, lane_priority, due, sequence, token,
           retry_count, replay, snoozes, created_at, body, unique_key, concurrency_key,
           concurrency_limit, held AND awaits = 0 AS held, expires_at, worker, worker_region,
           started_at, last_retry_at, NULL::bigint AS ended_at, NULL::bytea AS result,
           NULL::text AS cancel_reason, trail, unique_in, awaits, gather, gather_place, place,
           failures
    FROM job
    UNION ALL
    SELECT id, queue, task, region, priority, status, scope, lane_priority, due, sequence, token,
           retry_count, replay, snoozes, created_at, body, unique_key, concurrency_key,
           concurrency_limit, false, expires_at, NULL, worker_region, started_at, last_retry_at,
           ended_at, result, cancel_reason, trail, unique_in, awaits, gather, gather_place, place,
           failures
    FROM ended
) e;
