-- commit(given, outcomes, next jobs): write each outcome whose lease is still held.
-- kinds: 1 Done, 2 Again, 3 Later, 4 Dead, 5 Returned, 6 Cancelled. failures: an attempt as JSON
-- for Again and Dead. delays in microseconds. trails: for Again and Keyed, which is a Returned with
-- to_keys and to_limits: the concurrency key that it has from now on. free: whether an Again uses no
-- retry. parents: the outcome that each next job follows. Ids are different.
-- Result: for each outcome 1 written, 2 already written, 3 stale.
CREATE FUNCTION commit(
    given bigint, kinds smallint[], ids text[], tokens bigint[], results bytea[],
    delays bigint[], to_scopes text[], to_priorities smallint[], failures jsonb[],
    reasons text[], trails text[], free boolean[], to_keys text[], to_limits integer[],
    history_limit integer, parents integer[], next_ids text[],
    next_queues text[], next_tasks text[], next_bodies bytea[], next_regions text[],
    next_priorities smallint[], next_delays bigint[], next_unique_keys text[],
    next_concurrency_keys text[], next_concurrency_limits integer[], next_expire bigint[],
    next_unique_ins text[], next_await integer[], next_gathers text[], next_gather_indexs integer[]
) RETURNS smallint[]
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
<<writing>>
DECLARE
    now bigint := instant(given);
    kept bigint[];            -- ordinals of the outcomes whose lease is held
    rows tid[];               -- their jobs
    handed_out bigint[];      -- the claims that handed these out
    failed integer[];         -- how often these have failed
    keys text[];              -- of those that hold a permit, or that others miss
    permits text[];
    missing text[];
    missed text[];
    gathers text[];           -- where those that are done arrive
    places integer[];
    arrived bigint[];
    numbers bigint[];         -- one for each outcome, followed by those of its next jobs
    verdicts smallint[];
    lanes text[];             -- where each is put, in the order of `kept`
    dues bigint[];
    called boolean[];         -- by ordinal: whether a sleeper was rung for it
    following record;
BEGIN
    SELECT array_agg(l.ord ORDER BY l.ord), array_agg(l.at ORDER BY l.ord), array_agg(l.claimed),
           array_agg(l.failures ORDER BY l.ord),
           array_agg(l.concurrency_key ORDER BY l.ord) FILTER (WHERE l.holds),
           array_agg(l.permits ORDER BY l.ord) FILTER (WHERE l.holds),
           array_agg(l.id ORDER BY l.ord) FILTER (WHERE l.holds),
           array_agg(l.missed ORDER BY l.ord) FILTER (WHERE l.holds),
           array_agg(l.gather ORDER BY l.ord) FILTER (WHERE l.arrives),
           array_agg(l.gather_index ORDER BY l.ord) FILTER (WHERE l.arrives),
           array_agg(l.ord ORDER BY l.ord) FILTER (WHERE l.arrives),
           array_agg(l.lane ORDER BY l.ord), array_agg(l.due ORDER BY l.ord)
    INTO kept, rows, handed_out, failed, keys, permits, missing, missed, gathers, places, arrived,
         lanes, dues
    FROM (
        SELECT u.ord, j.id, j.at, j.claimed, j.failures, j.concurrency_key, j.permits, j.gather,
               j.gather_index, CASE WHEN u.kind = 6 THEN j.gather END AS missed,
               u.kind = 1 AND j.gather IS NOT NULL AS arrives,
               coalesce(j.concurrency_key, j.permits) IS NOT NULL
               OR (u.kind = 6 AND j.gather IS NOT NULL) AS holds,
               CASE WHEN u.kind = 2 THEN lane_name(j.queue, u.scope, u.priority)
                    ELSE lane_name(j.queue, j.scope, j.lane_priority) END AS lane,
               CASE WHEN u.kind = 5 THEN j.due ELSE now + u.delay END AS due
        FROM (
            SELECT * FROM unnest(ids, tokens, kinds, delays, to_scopes, to_priorities)
            WITH ORDINALITY AS u (id, token, kind, delay, scope, priority, ord)
            ORDER BY u.id  -- commits lock jobs in one order
        ) u
        CROSS JOIN LATERAL (
            SELECT h.ctid AS at, h.* FROM job h
            WHERE h.id = u.id AND h.token = u.token AND h.status = 'processing'
            LIMIT 1 FOR UPDATE
        ) j
    ) l;
    kept := coalesce(kept, '{}');
    verdicts := ARRAY(
        SELECT CASE WHEN u.ord = ANY (kept) THEN 1 ELSE verdict(u.id, u.token) END::smallint
        FROM unnest(ids, tokens) WITH ORDINALITY AS u (id, token, ord) ORDER BY u.ord);

    IF gathers IS NOT NULL THEN
        numbers := ARRAY(SELECT nextval('counter') FROM generate_series(
            1, cardinality(ids) + coalesce(cardinality(parents), 0)));
    END IF;
    PERFORM hand_back(handed_out);
    PERFORM remember(now, kept, failed, ids, failures, history_limit);
    PERFORM end_batch(now, kept, rows, kinds, results, reasons);
    IF any_asleep() THEN
        FOR i IN 1 .. cardinality(kept) LOOP
            IF kinds[kept[i]] IN (2, 3, 5) THEN
                called[kept[i]] := ring_lane(now, lanes[i], dues[i], 1) > 0;
            END IF;
        END LOOP;
    END IF;
    PERFORM put_back(now, kept, rows, kinds, delays, to_scopes, to_priorities, trails, free,
                     to_keys, to_limits, numbers, called);
    IF parents IS NOT NULL THEN
        SELECT array_agg(n.id ORDER BY n.ord) AS ids,
               array_agg(coalesce(n.queue, next_queues[1]) ORDER BY n.ord) AS queues,
               array_agg(coalesce(n.task, next_tasks[1]) ORDER BY n.ord) AS tasks,
               array_agg(n.body ORDER BY n.ord) AS bodies,
               array_agg(coalesce(n.region, next_regions[1]) ORDER BY n.ord) AS regions,
               array_agg(coalesce(n.priority, next_priorities[1]) ORDER BY n.ord) AS priorities,
               array_agg(coalesce(n.delay, next_delays[1]) ORDER BY n.ord) AS delays,
               array_agg(n.unique_key ORDER BY n.ord) AS unique_keys,
               array_agg(n.concurrency_key ORDER BY n.ord) AS concurrency_keys,
               array_agg(coalesce(n.concurrency_limit, next_concurrency_limits[1])
                         ORDER BY n.ord) AS concurrency_limits,
               array_agg(n.expires ORDER BY n.ord) AS expire,
               array_agg(n.unique_in ORDER BY n.ord) AS unique_ins,
               array_agg(n.awaits ORDER BY n.ord) AS await,
               array_agg(n.gather ORDER BY n.ord) AS gathers,
               array_agg(n.gather_index ORDER BY n.ord) AS gather_indexs,
               array_agg(numbers[n.parent + n.ord] ORDER BY n.ord) AS numbers
        INTO following
        FROM unnest(parents, next_ids, next_queues, next_tasks, next_bodies, next_regions,
                    next_priorities, next_delays, next_unique_keys, next_concurrency_keys,
                    next_concurrency_limits, next_expire, next_unique_ins, next_await,
                    next_gathers, next_gather_indexs) WITH ORDINALITY
          AS n (parent, id, queue, task, body, region, priority, delay, unique_key,
                concurrency_key, concurrency_limit, expires, unique_in, awaits, gather,
                gather_index, ord)
        WHERE n.parent = ANY (kept);
        IF following.ids IS NOT NULL THEN
            called := ring_new(now, cardinality(following.ids), following.queues,
                               following.regions, following.priorities, following.delays,
                               following.await, NULL);
            PERFORM add(now, called, following.numbers, following.ids, following.queues,
                        following.tasks, following.bodies, following.regions,
                        following.priorities, following.delays, following.unique_keys,
                        following.concurrency_keys, following.concurrency_limits,
                        following.expire, following.unique_ins, following.await,
                        following.gathers, following.gather_indexs);
        END IF;
    END IF;
    IF keys IS NOT NULL THEN
        PERFORM hold_gates();
    END IF;
    IF array_remove(missed, NULL) <> '{}' THEN
        PERFORM lock_upwards(missed || gathers);
    END IF;
    IF gathers IS NOT NULL THEN
        PERFORM arrive(now, gathers, places, ARRAY(SELECT results[a] FROM unnest(arrived) AS a),
                       arrived, numbers, parents);
    END IF;
    IF keys IS NOT NULL THEN
        FOR i IN 1 .. cardinality(keys) LOOP
            PERFORM release(now, keys[i], writing.permits[i]);
            PERFORM miss(now, missing[i], missed[i], 'cancelled');
        END LOOP;
    END IF;
    RETURN verdicts;
END
$$;

-- remember(now, kept, failed, ids, failures, limit): append failed attempts to their jobs'
-- histories, which keep the newest `limit`.
CREATE FUNCTION remember(
    now bigint, kept bigint[], failed integer[], ids text[], failures jsonb[],
    history_limit integer
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH added AS (
        INSERT INTO attempt (job, ordinal, failure)
        SELECT ids[k.ord], k.failed + 1,
               failures[k.ord] || jsonb_build_object('ended_at', now / 1e6)
        FROM unnest(kept, failed) AS k (ord, failed)
        WHERE failures[k.ord] IS NOT NULL
        RETURNING job, ordinal
    )
    DELETE FROM attempt a
    USING added n CROSS JOIN LATERAL (
        SELECT o.ctid AS at FROM attempt o
        WHERE o.job = n.job AND o.ordinal <= n.ordinal - history_limit OFFSET 0
    ) old
    WHERE n.ordinal > history_limit AND a.ctid = old.at;
END
$$;

-- put_back(now, kept, rows, …): let those that go on stand in their lanes again. called: by
-- ordinal, whether a sleeper was rung for it.
CREATE FUNCTION put_back(
    now bigint, kept bigint[], rows tid[], kinds smallint[], delays bigint[], to_scopes text[],
    to_priorities smallint[], trails text[], free boolean[], to_keys text[], to_limits integer[],
    numbers bigint[], in_called boolean[]
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH back AS (
        UPDATE job j SET
            status = 'pending', permits = NULL, committed = j.token,
            retry_count = j.retry_count + (u.kind = 2 AND NOT u.free)::integer,
            snoozes = j.snoozes + (u.kind = 3 OR u.free)::integer,
            failures = j.failures + (u.kind = 2)::integer,
            scope = CASE WHEN u.kind = 2 THEN u.scope ELSE j.scope END,
            lane_priority = CASE WHEN u.kind = 2 THEN u.priority ELSE j.lane_priority END,
            due = CASE WHEN u.kind = 5 THEN j.due ELSE now + u.delay END,
            delayed = CASE WHEN u.kind = 5 THEN j.delayed ELSE u.delay > 0 END,
            trail = coalesce(u.trail, j.trail),
            concurrency_key = coalesce(u.key, j.concurrency_key),
            concurrency_limit = coalesce(u.key_limit, j.concurrency_limit),
            sequence = CASE WHEN u.kind = 5 THEN j.sequence
                            ELSE coalesce(numbers[u.ord], nextval('counter')) END
        FROM (
            SELECT k.at, k.ord, kinds[k.ord] AS kind, delays[k.ord] AS delay,
                   trails[k.ord] AS trail, coalesce(put_back.free[k.ord], false) AS free,
                   to_keys[k.ord] AS key, to_limits[k.ord] AS key_limit, to_scopes[k.ord] AS scope,
                   to_priorities[k.ord] AS priority
            FROM unnest(kept, rows) AS k (ord, at) WHERE kinds[k.ord] IN (2, 3, 5)
        ) u
        WHERE j.ctid = u.at
        RETURNING j, coalesce(in_called[u.ord], false) AS called
    )
    INSERT INTO waiting (due, sequence, expires_at, concurrency_limit, called, delayed, lane, id,
                         concurrency_key)
    SELECT (b.j).due, (b.j).sequence, expires(b.j), (b.j).concurrency_limit, b.called,
           (b.j).delayed, lane_name((b.j).queue, (b.j).scope, (b.j).lane_priority), (b.j).id,
           (b.j).concurrency_key
    FROM back b;
END
$$;

-- end_batch(now, kept, rows, kinds, results, reasons): end what is done, dead or cancelled.
CREATE FUNCTION end_batch(
    now bigint, kept bigint[], rows tid[], kinds smallint[], results bytea[], reasons text[]
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH over AS (
        UPDATE job j SET
            status = CASE u.kind WHEN 1 THEN 'done' WHEN 4 THEN 'failed' ELSE 'cancelled' END,
            ended_at = now, committed = j.token, open_key = NULL, dead = nullif(u.kind = 4, false),
            failures = j.failures + (u.kind = 4)::integer, result = u.result,
            cancel_reason = u.reason
        FROM (
            SELECT k.at, kinds[k.ord] AS kind, results[k.ord] AS result, reasons[k.ord] AS reason
            FROM unnest(kept, rows) AS k (ord, at) WHERE kinds[k.ord] IN (1, 4, 6)
        ) u
        WHERE j.ctid = u.at
        RETURNING j.id, j.dead, j.queue, j.status
    ), counted AS (
        INSERT INTO kept_change (many, queue, status)
        SELECT count(*), o.queue, o.status FROM over o GROUP BY o.queue, o.status
    )
    INSERT INTO ended (number, ended_at, jobs)
    SELECT nextval('counter'), now, array_agg(o.id) FROM over o WHERE o.dead IS NULL
    HAVING count(*) > 0;
END
$$;
