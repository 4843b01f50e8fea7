-- seize(given, worker, limit): claim jobs whose worker stopped beating or is unknown, the longest
-- running first. Result: the claims as they were, with the new token.
-- The distinct workers of running jobs are found by skipping through the index.
CREATE FUNCTION seize(given bigint, self jsonb, most integer)
RETURNS TABLE (
    id text, token bigint, queue text, task text, body bytea, region text, priority smallint,
    scope text, lane_priority smallint, due bigint, retry_count integer, replay integer,
    snoozes integer, worker text, worker_region text, started_at bigint, trail text
)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    now bigint := instant(given);
    gone text[];
    lost record;
    gates_held boolean := false;
BEGIN
    PERFORM keep_worker(now, self);
    WITH RECURSIVE running (worker) AS (
        SELECT min(j.worker) FROM job j WHERE j.status = 'processing'
        UNION ALL
        SELECT (SELECT min(j.worker) FROM job j
                WHERE j.status = 'processing' AND j.worker > r.worker)
        FROM running r WHERE r.worker IS NOT NULL
    )
    SELECT array_agg(r.worker) INTO gone FROM running r
    WHERE r.worker IS NOT NULL AND NOT EXISTS (
        SELECT FROM worker w WHERE w.id = r.worker AND w.beat_at + w.lease > now);
    IF gone IS NULL THEN
        RETURN;
    END IF;
    FOR lost IN
        SELECT j.* FROM job j WHERE j.status = 'processing' AND j.worker = ANY (gone)
        ORDER BY j.started_at, j.sequence LIMIT most FOR UPDATE SKIP LOCKED
    LOOP
        UPDATE job j SET token = j.token + 1, worker = self ->> 'id', leased_at = now,
                         permits = NULL
        WHERE j.id = lost.id;
        IF coalesce(lost.concurrency_key, lost.permits) IS NOT NULL THEN
            IF NOT gates_held THEN
                PERFORM hold_gates();
                gates_held := true;
            END IF;
            PERFORM release(now, lost.concurrency_key, lost.permits);
        END IF;
        RETURN QUERY SELECT
            lost.id, lost.token + 1, lost.queue, lost.task, lost.body, lost.region, lost.priority,
            lost.scope, lost.lane_priority, lost.due, lost.retry_count, lost.replay, lost.snoozes,
            lost.worker, coalesce(lost.worker_region, lost.region), lost.started_at, lost.trail;
    END LOOP;
END
$$;
