-- replay(given, ids): make failed jobs pending again. Result: for each whether it was failed, and
-- no other job has taken its unique key.
CREATE FUNCTION replay(given bigint, ids text[]) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
    was ended;
BEGIN
    PERFORM FROM ended e WHERE e.id = ANY (ids) ORDER BY e.id FOR UPDATE;
    FOR i IN 1 .. cardinality(ids) LOOP
        SELECT e.* INTO was FROM ended e WHERE e.id = ids[i] AND e.status = 'failed' FOR UPDATE;
        IF FOUND THEN
            INSERT INTO job (place, sequence, due, created_at, expires_at, started_at,
                             last_retry_at, token, committed, replay, failures, concurrency_limit,
                             gather_place, priority, lane_priority, id, queue, scope, region, task,
                             worker_region, unique_key, unique_in, concurrency_key, gather, body)
            VALUES (was.place, nextval('counter'), now, was.created_at, was.expires_at,
                    was.started_at, was.last_retry_at, was.token, was.committed, was.replay + 1,
                    was.failures, was.concurrency_limit, was.gather_place, was.priority,
                    was.priority, was.id, was.queue, was.region, was.region, was.task,
                    was.worker_region, was.unique_key, was.unique_in, was.concurrency_key,
                    was.gather, was.body)
            ON CONFLICT DO NOTHING;
        END IF;
        answers := answers || FOUND;
        IF FOUND THEN
            DELETE FROM ended WHERE id = ids[i];
            PERFORM ring_lane(now, lane_name(was.queue, was.region, was.priority), now, 1);
        END IF;
    END LOOP;
    RETURN answers;
END
$$;
