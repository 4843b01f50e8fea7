-- finish(given, ids, tokens, results): commit outcomes that are all Done without next jobs.
-- Result: NULL if all were written, otherwise for each 1 written, 2 already written, 3 stale.
-- Ids are sorted and different, so that commits lock jobs in one order. (Here and elsewhere
-- "<> 'pending'" says processing without tempting the planner to walk all running jobs.)
CREATE FUNCTION finish(given bigint, ids text[], tokens integer[], results bytea[])
RETURNS smallint[]
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    now bigint := instant(given);
    written bigint;
    written_ids text[];
    keys text[];
    freed text[];
BEGIN
    WITH gone AS (
        DELETE FROM job j
        USING unnest(ids, tokens, results) AS u (id, token, result)
        CROSS JOIN LATERAL (
            SELECT h.ctid AS at FROM job h
            WHERE h.id = u.id AND h.token = u.token AND h.status <> 'pending' LIMIT 1
        ) f
        WHERE j.ctid = f.at
        RETURNING j.*, u.result
    ), kept AS (
        INSERT INTO ended (
            place, sequence, due, created_at, expires_at, started_at, last_retry_at, ended_at,
            token, committed, retry_count, replay, snoozes, failures, concurrency_limit, priority,
            lane_priority, status, id, queue, scope, region, task, worker_region, unique_key,
            concurrency_key, body, result)
        SELECT place, sequence, due, created_at, expires_at, started_at, last_retry_at, now, token,
               token, retry_count, replay, snoozes, failures, concurrency_limit, priority,
               lane_priority, 'done', id, queue, scope, region, task, worker_region, unique_key,
               concurrency_key, body, result
        FROM gone
    )
    SELECT count(*), array_agg(g.id),
           array_agg(g.concurrency_key) FILTER (WHERE g.holds),
           array_agg(g.permits) FILTER (WHERE g.holds)
    INTO written, written_ids, keys, freed
    FROM (SELECT *, coalesce(concurrency_key, permits) IS NOT NULL AS holds FROM gone) g;
    IF keys IS NOT NULL THEN
        PERFORM hold_gates();
        FOR i IN 1 .. cardinality(keys) LOOP
            PERFORM release(now, keys[i], freed[i]);
        END LOOP;
    END IF;
    IF written = cardinality(ids) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(
        SELECT CASE WHEN u.id = ANY (written_ids) THEN 1 ELSE verdict(u.id, u.token) END::smallint
        FROM unnest(ids, tokens) WITH ORDINALITY AS u (id, token, ord) ORDER BY u.ord);
END
$$;

-- verdict(id, token): what is said of a lease that is not held: 2 already written, 3 stale.
CREATE FUNCTION verdict(in_id text, in_token integer) RETURNS smallint
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN in_token = coalesce(
        (SELECT committed FROM job WHERE id = in_id), (SELECT committed FROM ended WHERE id = in_id)
    ) THEN 2 ELSE 3 END::smallint
$$;
