-- end_job(now, id, token, status, reason): move one living job to `ended`.
CREATE FUNCTION end_job(now bigint, in_id text, in_token bigint, in_status text, in_reason text)
RETURNS void
LANGUAGE sql VOLATILE
AS $$
    WITH gone AS (DELETE FROM job WHERE id = in_id RETURNING *)
    INSERT INTO ended (
        place, sequence, due, created_at, expires_at, started_at, last_retry_at, ended_at, token,
        committed, retry_count, replay, snoozes, failures, concurrency_limit, awaits, gather_place,
        priority, lane_priority, status, id, queue, scope, region, task, worker_region, unique_key,
        unique_in, concurrency_key, gather, cancel_reason, trail, body)
    SELECT place, sequence, due, created_at, expires_at, started_at, last_retry_at, now, in_token,
           committed, retry_count, replay, snoozes, failures, concurrency_limit, awaits,
           gather_place, priority, lane_priority, in_status, id, queue, scope, region, task,
           worker_region, unique_key, unique_in, concurrency_key, gather, in_reason, trail, body
    FROM gone
$$;
