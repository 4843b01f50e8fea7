-- finish(given, ids, tokens, results, ords): commit outcomes that are all Done without next jobs.
-- Result: NULL if all were written, otherwise for each 1 written, 2 already written, 3 stale.
-- Ids are sorted and different, so that commits lock jobs in one order; ords is the order in which
-- they were given. (Here and elsewhere
-- "<> 'pending'" says processing without tempting the planner to walk all running jobs.)
CREATE FUNCTION finish(
    given bigint, ids text[], tokens bigint[], results bytea[], ords integer[]
) RETURNS smallint[]
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
    gathers text[];           -- where members arrive, and with what
    places integer[];
    arrived bytea[];
    arrived_ords bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM job j
        USING unnest(ids, tokens, results, ords) AS u (id, token, result, ord)
        CROSS JOIN LATERAL (
            SELECT h.ctid AS at FROM job h
            WHERE h.id = u.id AND h.token = u.token AND h.status <> 'pending' LIMIT 1
        ) f
        WHERE j.ctid = f.at
        RETURNING j.*, u.result, u.ord
    ), kept AS (
        INSERT INTO ended (
            place, sequence, due, created_at, expires_at, started_at, last_retry_at, ended_at,
            token, committed, retry_count, replay, snoozes, failures, concurrency_limit, awaits,
            gather_place, priority, lane_priority, status, id, queue, scope, region, task,
            worker_region, unique_key, unique_in, concurrency_key, gather, trail, body, result)
        SELECT place, sequence, due, created_at, expires_at, started_at, last_retry_at, now, token,
               token, retry_count, replay, snoozes, failures, concurrency_limit, awaits,
               gather_place, priority, lane_priority, 'done', id, queue, scope, region, task,
               worker_region, unique_key, unique_in, concurrency_key, gather, trail, body, result
        FROM gone
    )
    SELECT count(*), array_agg(g.id),
           array_agg(g.concurrency_key) FILTER (WHERE g.holds),
           array_agg(g.permits) FILTER (WHERE g.holds),
           array_agg(g.gather) FILTER (WHERE g.gather IS NOT NULL),
           array_agg(g.gather_place) FILTER (WHERE g.gather IS NOT NULL),
           array_agg(g.result) FILTER (WHERE g.gather IS NOT NULL),
           array_agg(g.ord::bigint) FILTER (WHERE g.gather IS NOT NULL)
    INTO written, written_ids, keys, freed, gathers, places, arrived, arrived_ords
    FROM (SELECT *, coalesce(concurrency_key, permits) IS NOT NULL AS holds FROM gone) g;
    IF keys IS NOT NULL THEN
        PERFORM hold_gates();
    END IF;
    IF gathers IS NOT NULL THEN
        PERFORM arrive(now, gathers, places, arrived, arrived_ords, NULL, NULL);
    END IF;
    IF keys IS NOT NULL THEN
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
CREATE FUNCTION verdict(in_id text, in_token bigint) RETURNS smallint
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN in_token = coalesce(
        (SELECT committed FROM job WHERE id = in_id), (SELECT committed FROM ended WHERE id = in_id)
    ) THEN 2 ELSE 3 END::smallint
$$;
