-- reclaim(given, self, limit): claim jobs whose worker stopped beating or is unknown, the longest
-- running first. Result: the jobs with their new token, and the worker that held them. For the
-- lanes of workers that waited and stopped beating, others are woken.
CREATE FUNCTION reclaim(given bigint, self jsonb, most integer) RETURNS SETOF every_job
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off
AS $$
#variable_conflict use_column
<<reclaiming>>
DECLARE
    now bigint := instant(given);
    gone bigint[];            -- claims of workers that are gone
    ids text[];
    numbers bigint[];
    held text[];              -- of those that hold a permit: limits, and keys of plans' limits
    permits text[];
    watched text[];           -- lanes of workers that waited and are gone
    claim_number bigint;
BEGIN
    PERFORM keep_worker(now, self);
    WITH dead AS (
        SELECT s.worker FROM sleeper s WHERE s.waiting AND NOT EXISTS (
            SELECT FROM worker w WHERE w.id = s.worker AND w.beat_at + w.lease > now)
        FOR UPDATE OF s SKIP LOCKED
    ), forgotten AS (
        DELETE FROM sleeper s USING dead d WHERE s.worker = d.worker RETURNING s.lanes
    )
    SELECT array_agg(DISTINCT l.lane) INTO watched
    FROM forgotten f CROSS JOIN LATERAL unnest(f.lanes) AS l (lane);
    IF watched IS NOT NULL AND any_asleep() THEN
        PERFORM wake_heads(now, watched, false);
    END IF;
    gone := ARRAY(SELECT c.number FROM claimed c WHERE NOT EXISTS (
        SELECT FROM worker w WHERE w.id = c.worker AND w.beat_at + w.lease > now));
    IF gone = '{}' THEN
        RETURN;
    END IF;
    SELECT array_agg(l.id), array_agg(l.claimed),
           array_agg(l.holds) FILTER (WHERE l.has_any), array_agg(l.permits) FILTER (WHERE l.has_any)
    INTO ids, numbers, held, permits
    FROM (
        SELECT j.id, j.claimed, j.holds, j.permits,
               coalesce(j.holds, j.permits) IS NOT NULL AS has_any
        FROM claimed c CROSS JOIN LATERAL unnest(c.ids) AS i (id)
        JOIN job j ON j.id = i.id AND j.claimed = c.number AND j.status = 'processing'
        WHERE c.number = ANY (gone)
        ORDER BY j.started_at, j.sequence LIMIT most FOR UPDATE OF j SKIP LOCKED
    ) l;
    IF ids IS NULL THEN
        RETURN;
    END IF;
    claim_number := nextval('counter');
    INSERT INTO claimed (number, claimed_at, open, worker, ids)
    VALUES (claim_number, now, cardinality(ids), self ->> 'id', ids);
    RETURN QUERY
    WITH lost AS (
        UPDATE job j SET token = j.token + 1, claimed = claim_number, permits = NULL, holds = NULL
        FROM unnest(reclaiming.ids, numbers) WITH ORDINALITY AS u (id, number, ord)
        JOIN claimed c ON c.number = u.number
        WHERE j.id = u.id
        RETURNING u.ord, c.worker AS lost_by, j
    )
    SELECT (l.j).*, NULL::text, l.lost_by, NULL::text FROM lost l ORDER BY l.ord;
    PERFORM hand_back(numbers);
    IF held IS NOT NULL THEN
        PERFORM lock_limits();
        FOR i IN 1 .. cardinality(held) LOOP
            PERFORM release(now, permits[i]);
            PERFORM free_limits(now, held[i], NULL);
        END LOOP;
    END IF;
END
$$;

-- reclaimed(ids): those of these jobs that a reaper holds: only the lease of a claim begins with
-- the attempt.
CREATE FUNCTION reclaimed(ids text[]) RETURNS SETOF every_job
LANGUAGE sql STABLE SET search_path FROM CURRENT SET enable_seqscan = off AS $$
    SELECT e.* FROM every_job e JOIN claimed c ON c.number = e.claimed
    WHERE e.id = ANY (reclaimed.ids) AND e.status = 'processing' AND c.claimed_at <> e.started_at
$$;
