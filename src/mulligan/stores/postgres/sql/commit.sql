-- commit(given, outcomes, history_limit, parents, following): write each outcome whose lease is
-- still held. `outcomes` is a record of arrays:
--
-- kind                1 Done, 2 Again, 3 Later, 4 Dead, 5 Returned, 6 Cancelled, 7 Limited
-- id, token           the lease; ids are different
-- result              of Done
-- delay               of Again and Later, in microseconds
-- scope, priority     the lane of Again
-- failure             of Again and Dead: the attempt as JSON
-- reason              of Cancelled
-- trail               of Again and Limited
-- limits, fairness_key   of Limited: those that the job has from now on
-- free                whether an Again uses no retry
-- use                 what an attempt says of limits, as JSON (note_use)
-- hands_on            whether a next job arrives in the place of Done
--
-- following: the next jobs, each of which follows the outcome that `parents` names; both are NULL
-- if there is none.
-- Result: for each outcome 1 written, 2 already written, 3 stale.
CREATE FUNCTION commit(
    given bigint, outcomes outcomes, history_limit integer, parents integer[], following new_jobs
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
    kinds smallint[] := outcomes.kind;
    results bytea[];
    kept bigint[];            -- ordinals of the outcomes whose lease is held
    rows tid[];               -- their jobs
    handed_out bigint[];      -- the claims that handed these out
    failed integer[];         -- how often these have failed
    special bigint[];         -- ordinals of those of which limits, lines or other jobs want to know
    special_ids text[];
    holds text[];             -- limits of which these hold permits, and keys of plans' limits
    permits text[];
    begun bigint[];           -- when they started
    named text[];             -- the limits that they name
    lined boolean[];          -- whether they go on in a line
    missed text[];            -- jobs that await these, which were cancelled
    one_by_one boolean;       -- lines change: each outcome as if it was written alone
    arrivals_seen integer := 0;
    use jsonb;
    gathers text[];           -- where those that have ended arrive
    indexes integer[];
    hows text[];              -- done, failed, cancelled
    missed_indexes integer[]; -- and which of their members these are
    reasons text[];
    tries integer[];
    arrived bigint[];
    numbers bigint[];         -- one for each outcome, followed by those of its next jobs
    verdicts smallint[];
    lanes text[];             -- where each is put, in the order of `kept`
    dues bigint[];
    woken boolean[];          -- by ordinal: whether a sleeper was woken for it
    next_numbers bigint[];    -- those of the next jobs
    left_out text[];          -- not NULL for next jobs of outcomes that are not written
BEGIN
    SELECT array_agg(l.ord ORDER BY l.ord), array_agg(l.at ORDER BY l.ord), array_agg(l.claimed),
           array_agg(l.failures ORDER BY l.ord),
           array_agg(l.ord ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(l.id ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(l.holds ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(l.permits ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(l.started_at ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(l.limits ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(l.lined ORDER BY l.ord) FILTER (WHERE l.special),
           bool_or(l.lined OR l.use IS NOT NULL OR l.holds IS NOT NULL),
           array_agg(l.missed ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(l.gather ORDER BY l.ord) FILTER (WHERE l.arrives),
           array_agg(l.gather_index ORDER BY l.ord) FILTER (WHERE l.arrives),
           array_agg(l.value ORDER BY l.ord) FILTER (WHERE l.arrives),
           array_agg(l.how ORDER BY l.ord) FILTER (WHERE l.arrives),
           array_agg(l.ord ORDER BY l.ord) FILTER (WHERE l.arrives),
           array_agg(l.gather_index ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(l.reason ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(l.retry_count + 1 ORDER BY l.ord) FILTER (WHERE l.special),
           array_agg(CASE WHEN NOT l.lined THEN l.lane END ORDER BY l.ord),
           array_agg(l.due ORDER BY l.ord)
    INTO kept, rows, handed_out, failed, special, special_ids, holds, permits, begun, named, lined,
         one_by_one, missed, gathers, indexes, results, hows, arrived, missed_indexes, reasons,
         tries, lanes, dues
    FROM (
        SELECT u.ord, j.id, j.at, j.claimed, j.failures, j.holds, j.permits, j.started_at, j.limits,
               w.lined, u.use, j.gather, j.gather_index, CASE WHEN u.kind = 6 THEN j.gather END AS missed,
               j.retry_count, u.reason,
               u.kind IN (1, 4, 6) AND j.gather IS NOT NULL
               AND u.hands_on IS NOT TRUE AS arrives,
               CASE u.kind WHEN 1 THEN 'done' WHEN 4 THEN 'failed' ELSE 'cancelled' END AS how,
               CASE WHEN j.gather IS NULL THEN NULL WHEN u.kind = 1 THEN u.result
                    WHEN u.kind = 4 THEN failure_value(
                        j.id, u.failure ->> 'type', u.failure ->> 'message',
                        (u.failure ->> 'number')::integer)
                    WHEN u.kind = 6 THEN failure_value(
                        j.id, 'Cancelled', u.reason, j.retry_count + 1) END AS value,
               coalesce(j.holds, j.permits) IS NOT NULL OR w.lined OR u.use IS NOT NULL
               OR (u.kind IN (1, 4, 6) AND j.gather IS NOT NULL) AS special,
               CASE WHEN u.kind = 2 THEN lane_name(j.queue, u.scope, u.priority)
                    ELSE lane_name(j.queue, j.scope, j.lane_priority) END AS lane,
               CASE WHEN u.kind IN (5, 7) THEN j.due ELSE now + u.delay END AS due
        FROM (
            SELECT * FROM unnest(outcomes.id, outcomes.token, outcomes.kind, outcomes.delay,
                                 outcomes.scope, outcomes.priority, outcomes.result,
                                 outcomes.failure, outcomes.reason, outcomes.use,
                                 outcomes.limits, outcomes.fairness_key, outcomes.hands_on)
            WITH ORDINALITY AS u (id, token, kind, delay, scope, priority, result, failure, reason,
                                  use, limits, fairness_key, hands_on, ord)
            ORDER BY u.id  -- commits lock jobs in one order
        ) u
        CROSS JOIN LATERAL (
            SELECT h.ctid AS at, h.* FROM job h
            WHERE h.id = u.id AND h.token = u.token AND h.status = 'processing'
            LIMIT 1 FOR UPDATE
        ) j
        CROSS JOIN LATERAL (
            SELECT CASE WHEN u.kind IN (2, 3, 5) THEN coalesce(j.limits, j.fairness_key) IS NOT NULL
                        ELSE coalesce(u.limits, u.fairness_key) IS NOT NULL END AS lined
        ) w
    ) l;
    kept := coalesce(kept, '{}');
    verdicts := ARRAY(
        SELECT CASE WHEN u.ord = ANY (kept) THEN 1 ELSE verdict(u.id, u.token) END::smallint
        FROM unnest(outcomes.id, outcomes.token) WITH ORDINALITY AS u (id, token, ord)
        ORDER BY u.ord);

    IF gathers IS NOT NULL THEN
        numbers := ARRAY(SELECT nextval('counter') FROM generate_series(
            1, cardinality(kinds) + coalesce(cardinality(parents), 0)));
    END IF;
    PERFORM hand_back(handed_out);
    PERFORM remember(now, kept, failed, outcomes.id, outcomes.failure, history_limit);
    PERFORM end_batch(now, kept, rows, kinds, outcomes.result, outcomes.reason);
    IF any_asleep() THEN
        FOR i IN 1 .. cardinality(kept) LOOP
            IF kinds[kept[i]] IN (2, 3, 5, 7) AND lanes[i] IS NOT NULL THEN
                woken[kept[i]] := wake_lane(now, lanes[i], dues[i], 1) > 0;
            END IF;
        END LOOP;
    END IF;
    PERFORM put_back(now, kept, rows, outcomes, numbers, woken);
    IF parents IS NOT NULL THEN
        -- What uses limits and is followed by others is alone.
        IF cardinality(kept) = 1 AND outcomes.use[kept[1]] IS NOT NULL THEN
            PERFORM lock_limits();
            PERFORM note_use(now, outcomes.use[kept[1]], named[1]);
        END IF;
        FOR i IN 1 .. cardinality(parents) LOOP
            IF verdicts[parents[i]] <> 1 THEN
                left_out[i] := 'its outcome is not written';
            END IF;
        END LOOP;
        IF numbers IS NOT NULL THEN
            next_numbers := ARRAY(SELECT numbers[p.parent + p.ord] FROM unnest(parents)
                                  WITH ORDINALITY AS p (parent, ord) ORDER BY p.ord);
        END IF;
        woken := wake_new(now, cardinality(parents), following.queue, following.region,
                          following.priority, following.delay, following.awaits, left_out,
                          following.limits, following.fairness_key);
        PERFORM add(now, woken, next_numbers, left_out, following, false);
    END IF;
    IF special IS NOT NULL THEN
        one_by_one := one_by_one OR awaited_in_line(gathers);
        IF one_by_one OR array_remove(writing.permits, NULL) <> '{}' THEN
            PERFORM lock_limits();
        END IF;
    END IF;
    IF array_remove(missed, NULL) <> '{}' THEN
        PERFORM lock_upwards(missed || gathers);
    END IF;
    IF gathers IS NOT NULL AND NOT one_by_one THEN
        PERFORM arrive(now, gathers, indexes, results, hows, arrived, numbers, parents);
    END IF;
    FOR i IN 1 .. coalesce(cardinality(special), 0) LOOP
        use := outcomes.use[special[i]];
        IF use IS NOT NULL AND parents IS NULL THEN
            PERFORM note_use(now, use, named[i]);
        END IF;
        IF lined[i] THEN
            PERFORM stand(now, special_ids[i]);
        END IF;
        IF one_by_one AND arrived[arrivals_seen + 1] = special[i] THEN
            arrivals_seen := arrivals_seen + 1;
            PERFORM arrive(now, ARRAY[gathers[arrivals_seen]], ARRAY[indexes[arrivals_seen]],
                           ARRAY[results[arrivals_seen]], ARRAY[hows[arrivals_seen]],
                           ARRAY[arrived[arrivals_seen]], numbers, parents);
        END IF;
        IF missed[i] IS NOT NULL THEN
            PERFORM miss(now, special_ids[i], missed[i], missed_indexes[i], reasons[i], tries[i]);
        END IF;
        PERFORM release(now, writing.permits[i]);
        IF holds[i] IS NOT NULL THEN
            PERFORM free_limits(now, holds[i],
                                CASE WHEN kinds[special[i]] IN (5, 7) THEN begun[i] END);
        END IF;
    END LOOP;
    RETURN verdicts;
END
$$;

-- lock_leases(ids): lock what several commits of one statement write, before the first of them locks
-- the limits.
CREATE FUNCTION lock_leases(ids text[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
BEGIN
    PERFORM FROM job j WHERE j.id = ANY (ids) AND j.status = 'processing' ORDER BY j.id FOR UPDATE;
    PERFORM FROM claimed c WHERE c.number = ANY (ARRAY(
        SELECT j.claimed FROM job j
        WHERE j.id = ANY (lock_leases.ids) AND j.status = 'processing'))
    ORDER BY c.number FOR UPDATE;
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
        INSERT INTO attempt (job, ordinal, failure, traceback)
        SELECT ids[k.ord], k.failed + 1,
               failures[k.ord] - 'traceback' || jsonb_build_object('ended_at', now / 1e6),
               failures[k.ord] ->> 'traceback'
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

-- put_back(now, kept, rows, outcomes, numbers, woken): let those that go on wait in their lanes
-- again, but for those that stand in lines. woken: by ordinal, whether a sleeper was woken for it.
CREATE FUNCTION put_back(
    now bigint, kept bigint[], rows tid[], outcomes outcomes, numbers bigint[], in_woken boolean[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    -- An array is quicker to read in a variable.
    kinds smallint[] := outcomes.kind;
    delays bigint[] := outcomes.delay;
    scopes text[] := outcomes.scope;
    priorities smallint[] := outcomes.priority;
    trails text[] := outcomes.trail;
    frees boolean[] := outcomes.free;
    limits text[] := outcomes.limits;
    keys text[] := outcomes.fairness_key;
BEGIN
    WITH back AS (
        UPDATE job j SET
            status = 'pending', permits = NULL, holds = NULL, committed = j.token,
            retry_count = j.retry_count + (u.kind = 2 AND NOT u.free)::integer,
            snoozes = j.snoozes + (u.kind = 3 OR u.free)::integer,
            failures = j.failures + (u.kind = 2)::integer,
            scope = CASE WHEN u.kind = 2 THEN u.scope ELSE j.scope END,
            lane_priority = CASE WHEN u.kind = 2 THEN u.priority ELSE j.lane_priority END,
            due = CASE WHEN u.kind IN (5, 7) THEN j.due ELSE now + u.delay END,
            delayed = CASE WHEN u.kind IN (5, 7) THEN j.delayed ELSE u.delay > 0 END,
            trail = coalesce(u.trail, j.trail),
            limits = CASE WHEN u.kind = 7 THEN u.limits ELSE j.limits END,
            fairness_key = CASE WHEN u.kind = 7 THEN u.key ELSE j.fairness_key END,
            sequence = CASE WHEN u.kind IN (5, 7) THEN j.sequence
                            ELSE coalesce(numbers[u.ord], nextval('counter')) END
        FROM (
            SELECT k.at, k.ord, kinds[k.ord] AS kind, delays[k.ord] AS delay,
                   trails[k.ord] AS trail, coalesce(frees[k.ord], false) AS free,
                   keys[k.ord] AS key, limits[k.ord] AS limits, scopes[k.ord] AS scope,
                   priorities[k.ord] AS priority
            FROM unnest(kept, rows) AS k (ord, at) WHERE kinds[k.ord] IN (2, 3, 5, 7)
        ) u
        WHERE j.ctid = u.at
        RETURNING j, coalesce(in_woken[u.ord], false) AS woken
    )
    INSERT INTO waiting (due, sequence, expires_at, woken, delayed, lane, id)
    SELECT (b.j).due, (b.j).sequence, expires(b.j), b.woken, (b.j).delayed,
           lane_name((b.j).queue, (b.j).scope, (b.j).lane_priority), (b.j).id
    FROM back b WHERE NOT is_lined(b.j);
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
            ended_at = now, committed = j.token,
            open_key = CASE WHEN u.kind <> 6 AND j.unique_until > now THEN j.open_key END,
            dead = nullif(u.kind = 4, false),
            failures = j.failures + (u.kind = 4)::integer, result = u.result,
            cancel_reason = u.reason
        FROM (
            SELECT k.at, kinds[k.ord] AS kind, results[k.ord] AS result, reasons[k.ord] AS reason
            FROM unnest(kept, rows) AS k (ord, at) WHERE kinds[k.ord] IN (1, 4, 6)
        ) u
        WHERE j.ctid = u.at
        RETURNING j.id, j.dead, j.queue, j.status, j.keep
    ), counted AS (
        INSERT INTO kept_change (many, queue, status)
        SELECT count(*), o.queue, o.status FROM over o GROUP BY o.queue, o.status
    )
    INSERT INTO ended (number, ended_at, until, ids)
    SELECT nextval('counter'), now, now + o.keep * 1000000::bigint, array_agg(o.id)
    FROM over o WHERE o.dead IS NULL GROUP BY o.keep;
END
$$;
