-- finish(given, ids, tokens, results): commit outcomes that are all Done without next jobs.
-- results: NULL if there are none, of length one if all are alike.
-- Result: NULL if all were written, otherwise for each 1 written, 2 already written, 3 stale.
-- Ids are different. Jobs are locked in the order of ids, like all that is locked.
CREATE FUNCTION finish(given bigint, ids text[], tokens bigint[], results bytea[])
RETURNS smallint[]
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    now bigint := instant(given);
    alike bytea := CASE WHEN cardinality(results) = 1 THEN results[1] END;
    written text[] := ids;
    ords bigint[];            -- of those that were written
    numbers bigint[];         -- the claims that handed them out
    special boolean;          -- some hold a permit of a plan's limit, or arrive somewhere
    held text[];              -- limits, with permits of which some ran
    own boolean;              -- some say how long they are kept
BEGIN
    WITH done AS (
        UPDATE job j SET status = 'done', ended_at = now, committed = j.token,
                         open_key = CASE WHEN j.unique_until > now THEN j.open_key END,
                         result = coalesce(alike, results[u.ord])
        FROM (SELECT * FROM unnest(ids) WITH ORDINALITY AS u (id, ord) ORDER BY u.id) u
        WHERE j.id = ANY (ARRAY[u.id]) AND j.token = tokens[u.ord] AND j.status = 'processing'
        RETURNING u.ord, j.claimed, j.queue,
                  coalesce(j.permits, j.gather) IS NOT NULL AS special, j.holds,
                  j.keep IS NOT NULL AS own
    ), counted AS (
        INSERT INTO kept_change (many, queue, status)
        SELECT count(*), d.queue, 'done' FROM done d GROUP BY d.queue
    )
    SELECT array_agg(d.ord), array_agg(d.claimed), bool_or(d.special), bool_or(d.own),
           array_agg(d.holds) FILTER (WHERE d.holds IS NOT NULL)
    INTO ords, numbers, special, own, held FROM done d;
    IF ords IS NULL OR cardinality(ords) < cardinality(ids) THEN
        written := ARRAY(SELECT ids[o] FROM unnest(ords) AS o ORDER BY o);
    END IF;
    IF ords IS NOT NULL THEN
        IF own THEN
            PERFORM keep_each(now, written);
        ELSE
            PERFORM keep(now, written);
        END IF;
        PERFORM hand_back(numbers);
    END IF;
    IF special THEN
        PERFORM settle(now, written);
    ELSIF held IS NOT NULL THEN
        PERFORM lock_limits();
        PERFORM free_all(now, held);
    END IF;
    IF cardinality(written) = cardinality(ids) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(
        SELECT CASE WHEN u.ord = ANY (ords) THEN 1 ELSE verdict(u.id, tokens[u.ord]) END::smallint
        FROM unnest(ids) WITH ORDINALITY AS u (id, ord) ORDER BY u.ord);
END
$$;

-- finish_and_tell(given, ids, tokens, results, watch_key, told, verdicts, watching): as `finish`, and
-- then, if anybody waits for jobs to end, tell of these, without another way to the server and back.
-- told: the payload, which names them all. The second transaction waits for no disk: NOTIFY makes
-- transactions commit one after the other. (Hence @schema@, as in `accept`.)
CREATE PROCEDURE finish_and_tell(
    given bigint, ids text[], tokens bigint[], results bytea[], watch_key bigint, told text,
    INOUT verdicts smallint[], INOUT watching boolean
)
LANGUAGE plpgsql
AS $finish$
BEGIN
    verdicts := @schema@.finish(given, ids, tokens, results);
    COMMIT;
    watching := NOT (pg_catalog.pg_try_advisory_lock(watch_key)
                     AND pg_catalog.pg_advisory_unlock(watch_key));
    IF watching THEN
        SET LOCAL synchronous_commit = off;
        PERFORM pg_catalog.pg_notify('mulligan_ended_' || watch_key, told);
    END IF;
END
$finish$;

-- settle(now, ids): jobs that are done now, in this order, free what they held and arrive where
-- they are awaited.
CREATE FUNCTION settle(now bigint, ids text[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    held text[];              -- limits, with permits of which they ran
    freed text[];
    gathers text[];
    indexes integer[];
    results bytea[];
    ords bigint[];
    each record;
BEGIN
    SELECT array_agg(d.holds ORDER BY d.ord) FILTER (WHERE d.holds IS NOT NULL),
           array_agg(d.permits ORDER BY d.ord) FILTER (WHERE d.permits IS NOT NULL),
           array_agg(d.gather ORDER BY d.ord) FILTER (WHERE d.gather IS NOT NULL),
           array_agg(d.gather_index ORDER BY d.ord) FILTER (WHERE d.gather IS NOT NULL),
           array_agg(d.result ORDER BY d.ord) FILTER (WHERE d.gather IS NOT NULL),
           array_agg(d.ord ORDER BY d.ord) FILTER (WHERE d.gather IS NOT NULL)
    INTO held, freed, gathers, indexes, results, ords
    FROM (
        SELECT u.ord, j.* FROM unnest(ids) WITH ORDINALITY AS u (id, ord)
        CROSS JOIN LATERAL (SELECT h.* FROM job h WHERE h.id = u.id LIMIT 1) j
    ) d;
    IF coalesce(held, freed) IS NOT NULL OR awaited_in_line(gathers) THEN
        PERFORM lock_limits();
    END IF;
    IF held IS NULL OR gathers IS NULL THEN
        IF gathers IS NOT NULL THEN
            PERFORM arrive(now, gathers, indexes, results, NULL, ords, NULL, NULL);
        ELSIF held IS NOT NULL THEN
            PERFORM free_all(now, held);
        END IF;
    ELSE  -- one by one: who arrives may join a line for which another has room
        FOR each IN
            SELECT j.holds, j.gather, j.gather_index, j.result, u.ord
            FROM unnest(ids) WITH ORDINALITY AS u (id, ord) JOIN job j ON j.id = u.id
            ORDER BY u.ord
        LOOP
            IF each.gather IS NOT NULL THEN
                PERFORM arrive(now, ARRAY[each.gather], ARRAY[each.gather_index],
                               ARRAY[each.result], NULL, ARRAY[each.ord], NULL, NULL);
            END IF;
            PERFORM free_limits(now, each.holds, NULL);
        END LOOP;
    END IF;
    FOR i IN 1 .. coalesce(cardinality(freed), 0) LOOP
        PERFORM release(now, freed[i]);
    END LOOP;
END
$$;

-- verdict(id, token): what is said of a lease that is not held: 2 already written, 3 stale.
CREATE FUNCTION verdict(in_id text, in_token bigint) RETURNS smallint
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN in_token = (SELECT committed FROM job WHERE id = in_id) THEN 2 ELSE 3
           END::smallint
$$;
