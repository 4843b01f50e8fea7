-- reclaim(given, worker, limit): claim jobs whose worker stopped beating or is unknown, the longest
-- running first. Result: the claims as they were, with the new token. Of workers that waited and
-- stopped beating, what they knew of their lanes is told to others.
CREATE FUNCTION reclaim(given bigint, self jsonb, most integer)
RETURNS TABLE (
    id text, token bigint, queue text, task text, body bytea, region text, priority smallint,
    scope text, lane_priority smallint, due bigint, retry_count integer, replay integer,
    snoozes integer, worker text, worker_region text, started_at bigint, trail text
)
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
    keys text[];              -- of those that hold a permit
    permits text[];
    known text[];             -- lanes of workers that waited and are gone
    number bigint;
BEGIN
    PERFORM keep_worker(now, self);
    WITH dead AS (
        SELECT s.worker FROM sleeper s WHERE s.waiting AND NOT EXISTS (
            SELECT FROM worker w WHERE w.id = s.worker AND w.beat_at + w.lease > now)
        FOR UPDATE OF s SKIP LOCKED
    ), forgotten AS (
        DELETE FROM sleeper s USING dead d WHERE s.worker = d.worker RETURNING s.lanes
    )
    SELECT array_agg(DISTINCT l.lane) INTO known
    FROM forgotten f CROSS JOIN LATERAL unnest(f.lanes) AS l (lane);
    IF known IS NOT NULL AND any_asleep() THEN
        PERFORM ring_heads(now, known, false);
    END IF;
    gone := ARRAY(SELECT c.number FROM claimed c WHERE NOT EXISTS (
        SELECT FROM worker w WHERE w.id = c.worker AND w.beat_at + w.lease > now));
    IF gone = '{}' THEN
        RETURN;
    END IF;
    SELECT array_agg(l.id), array_agg(l.claimed),
           array_agg(l.concurrency_key) FILTER (WHERE l.holds),
           array_agg(l.permits) FILTER (WHERE l.holds)
    INTO ids, numbers, keys, permits
    FROM (
        SELECT j.id, j.claimed, j.concurrency_key, j.permits,
               coalesce(j.concurrency_key, j.permits) IS NOT NULL AS holds
        FROM claimed c CROSS JOIN LATERAL unnest(c.ids) AS i (id)
        JOIN job j ON j.id = i.id AND j.claimed = c.number AND j.status = 'processing'
        WHERE c.number = ANY (gone)
        ORDER BY j.started_at, j.sequence LIMIT most FOR UPDATE OF j SKIP LOCKED
    ) l;
    IF ids IS NULL THEN
        RETURN;
    END IF;
    number := nextval('counter');
    INSERT INTO claimed (number, claimed_at, open, worker, ids)
    VALUES (reclaiming.number, now, cardinality(ids), self ->> 'id', ids);
    RETURN QUERY
    WITH lost AS (
        UPDATE job j SET token = j.token + 1, claimed = reclaiming.number, permits = NULL
        FROM unnest(reclaiming.ids, numbers) WITH ORDINALITY AS u (id, number, ord)
        JOIN claimed c ON c.number = u.number
        WHERE j.id = u.id
        RETURNING u.ord, c.worker AS loser, j.*
    )
    SELECT l.id, l.token, l.queue, l.task, l.body, l.region, l.priority, l.scope, l.lane_priority,
           l.due, l.retry_count, l.replay, l.snoozes, l.loser, coalesce(l.worker_region, l.region),
           l.started_at, l.trail
    FROM lost l ORDER BY l.ord;
    PERFORM hand_back(numbers);
    IF keys IS NOT NULL THEN
        PERFORM hold_gates();
        FOR i IN 1 .. cardinality(keys) LOOP
            PERFORM release(now, keys[i], permits[i]);
        END LOOP;
    END IF;
END
$$;

-- reclaimed(ids): those of these jobs that a reaper holds, as `reclaim` gave them. Only the lease of a
-- claim begins with the attempt.
CREATE FUNCTION reclaimed(ids text[])
RETURNS TABLE (
    id text, token bigint, queue text, task text, body bytea, region text, priority smallint,
    scope text, lane_priority smallint, due bigint, retry_count integer, replay integer,
    snoozes integer, worker text, worker_region text, started_at bigint, trail text
)
LANGUAGE sql STABLE SET search_path FROM CURRENT SET enable_seqscan = off AS $$
    SELECT j.id, j.token, j.queue, j.task, j.body, j.region, j.priority, j.scope, j.lane_priority,
           j.due, j.retry_count, j.replay, j.snoozes, c.worker,
           coalesce(j.worker_region, j.region), j.started_at, j.trail
    FROM job j JOIN claimed c ON c.number = j.claimed
    WHERE j.id = ANY (reclaimed.ids) AND j.status = 'processing' AND c.claimed_at <> j.started_at
$$;
