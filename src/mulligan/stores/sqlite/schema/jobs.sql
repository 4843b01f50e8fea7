-- Every job as a reader sees it. It holds nothing itself, and is made anew whenever a file is
-- brought up to date.

DROP VIEW IF EXISTS jobs;

CREATE VIEW jobs AS
SELECT
    job.number, job.id, job.queue, job.task, job.region, job.priority,
    CASE WHEN running.number IS NULL THEN coalesce(ended.status, 'pending') ELSE 'processing' END
        AS status,
    job.scope, job.lane_priority, job.due, job.sequence,
    coalesce(running.token, ended.token, job.token) AS token,
    job.retry_count, job.replay, job.snoozes, job.created_at,
    CAST(job.body AS TEXT) AS body, job.unique_key, job.limits, job.fairness_key,
    line.waits_for, job.expires_at, running.worker,
    coalesce(running.worker_region, ended.worker_region, job.worker_region) AS worker_region,
    coalesce(running.started_at, ended.started_at, job.started_at) AS started_at,
    CASE
        WHEN job.retry_count > 0
            THEN coalesce(running.started_at, ended.started_at, job.last_retry_at)
        ELSE job.last_retry_at
    END AS last_retry_at,
    ended.ended_at, ended.result,
    (
        SELECT attempt.type || ': ' || attempt.message FROM attempt
        WHERE attempt.job = job.id ORDER BY attempt.id DESC LIMIT 1
    ) AS last_failure_reason,
    ended.cancel_reason, job.trail, job.unique_in, job.awaits, job.gather, job.gather_index,
    job.keep, job.debounce_until, job.unique_until, job.return_exceptions, job.members_failed,
    job.members_cancelled
FROM job
LEFT JOIN running ON running.number = job.number
LEFT JOIN ended ON ended.number = job.number
LEFT JOIN held ON held.number = job.number
LEFT JOIN line ON held.why = 'line' AND line.queue = held.queue AND line.scope = held.scope
    AND line.lane_priority = held.lane_priority AND line.line = held.line;

-- Unique keys that others may have from `until` on, though a job has them: a debounced job has its
-- key until it first starts, and a throttled one for as long as it says. As in core/unique.py.
DROP VIEW IF EXISTS lent_key;

CREATE VIEW lent_key AS
SELECT
    job.number, job.key_queue, job.unique_key,
    CASE WHEN ended.number IS NULL THEN 0.0 ELSE coalesce(job.unique_until, 0.0) END AS until
FROM job
LEFT JOIN running ON running.number = job.number
LEFT JOIN ended ON ended.number = job.number
WHERE
    job.key_queue IS NOT NULL
    AND (
        ended.number IS NOT NULL
        OR (
            job.debounce_until IS NOT NULL
            AND (
                running.number IS NOT NULL
                OR job.retry_count > 0 OR job.snoozes > 0 OR job.replay > 0
            )
        )
    );
