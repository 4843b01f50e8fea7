-- every_job: jobs as a reader sees them.
CREATE VIEW every_job AS
SELECT j.id, j.queue, j.task, j.region, j.priority, j.status, j.scope, j.lane_priority, j.due,
       j.sequence, j.token, j.retry_count, j.replay, j.snoozes, j.created_at, j.body, j.unique_key,
       j.concurrency_key, j.concurrency_limit,
       j.status = 'pending' AND EXISTS (
           SELECT FROM waiting w WHERE stands(w, j) AND w.held AND w.concurrency_key IS NOT NULL
       ) AS held,
       j.expires_at,
       (SELECT c.worker FROM claimed c WHERE j.status = 'processing' AND c.number = j.claimed)
       AS worker,
       j.worker_region, j.started_at, j.last_retry_at, j.ended_at, j.result, j.cancel_reason,
       j.trail, j.unique_in, j.awaits, j.gather, j.gather_index, j.place, j.failures,
       (SELECT a.failure FROM attempt a WHERE j.failures > 0 AND a.job = j.id
        ORDER BY a.ordinal DESC LIMIT 1) AS last_failure,
       j.dead
FROM job j;
