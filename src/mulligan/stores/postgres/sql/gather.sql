-- Fan-in: jobs arrive at the one that gathers them, and one that cannot arrive cancels it.

-- arrive(now, gathers, indexes, results, ords, numbers, parents): members are done and arrive, each
-- at its `gather_index`, where the gathering job still awaits it. The last lets that job join its
-- lane. ords: which outcome of the batch each was. numbers, parents: those of `commit`, or NULL.
CREATE FUNCTION arrive(
    now bigint, gathers text[], indexes integer[], results bytea[], ords bigint[],
    numbers bigint[], parents integer[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    complete record;
BEGIN
    PERFORM FROM job j WHERE j.id = ANY (gathers) AND j.awaits > 0 AND j.status = 'pending'
    ORDER BY j.id FOR UPDATE;
    FOR complete IN
        WITH first AS (
            SELECT DISTINCT ON (u.gather, u.index) u.gather, u.index, u.result, u.ord, g.awaits
            FROM unnest(gathers, indexes, results, ords) AS u (gather, index, result, ord)
            JOIN job g ON g.id = u.gather AND g.awaits > 0 AND g.status = 'pending'
            WHERE NOT EXISTS (
                SELECT FROM arrival a WHERE a.job = u.gather AND a.gather_index = u.index)
            ORDER BY u.gather, u.index, u.ord
        ), awaited AS (
            SELECT f.*, row_number() OVER (PARTITION BY f.gather ORDER BY f.ord) AS nth FROM first f
        ), kept AS (
            INSERT INTO arrival (job, gather_index, result)
            SELECT w.gather, w.index, w.result FROM awaited w WHERE w.nth <= w.awaits
        ), counted AS (
            UPDATE job j SET awaits = j.awaits - c.many
            FROM (SELECT w.gather, count(*) AS many, max(w.ord) AS last FROM awaited w
                  WHERE w.nth <= w.awaits GROUP BY 1) c
            WHERE j.id = c.gather
            RETURNING j.id, j.awaits, c.last, lane_name(j.queue, j.scope, j.lane_priority) AS lane
        )
        SELECT c.id, c.lane, c.last FROM counted c WHERE c.awaits = 0 ORDER BY c.last
    LOOP
        PERFORM leave_lane(complete.id);
        UPDATE job j SET
            due = now, delayed = false,
            sequence = coalesce(
                numbers[complete.last + (SELECT count(*) FROM unnest(parents) AS p
                                         WHERE p < complete.last)],
                nextval('counter'))
        WHERE j.id = complete.id;
        PERFORM join_lane(complete.id, any_asleep() AND wake_lane(now, complete.lane, now, 1) > 0);
    END LOOP;
END
$$;

-- lock_gathering(ids): lock those of these jobs that await others, what the others arrive at, and
-- so on upwards.
CREATE FUNCTION lock_gathering(ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    gathering text[];
BEGIN
    SELECT array_agg(CASE WHEN j.awaits > 0 THEN j.id ELSE j.gather END) INTO gathering
    FROM job j
    WHERE j.id = ANY (ids) AND j.ended_at IS NULL AND (j.awaits > 0 OR j.gather IS NOT NULL);
    IF gathering IS NOT NULL THEN
        PERFORM lock_upwards(gathering);
    END IF;
END
$$;

-- lock_upwards(gathers): lock these gathering jobs and those that await them in turn, and the
-- limits before. Whoever may cancel one calls this first.
CREATE FUNCTION lock_upwards(gathers text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM lock_limits();
    PERFORM FROM job j
    WHERE j.awaits > 0 AND j.status = 'pending' AND j.id = ANY (ARRAY(
        WITH RECURSIVE above (id) AS (
            SELECT unnest(gathers) COLLATE "C"
            UNION
            SELECT g.gather FROM above a JOIN job g ON g.id = a.id
            WHERE g.awaits > 0 AND g.status = 'pending'
        ) SELECT a.id FROM above a))
    ORDER BY j.id FOR UPDATE;
END
$$;

-- miss(now, id, gather, how): a job that will never arrive cancels the one that awaits it.
CREATE FUNCTION miss(now bigint, in_id text, in_gather text, how text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF in_gather IS NOT NULL AND EXISTS (
        SELECT FROM job WHERE id = in_gather AND awaits > 0 AND status = 'pending')
    THEN
        PERFORM cancel_one(
            now, in_gather, format('job %s, which it awaits, was %s', in_id, how));
    END IF;
END
$$;

-- cancel_one(now, id, reason): end a job that has not ended, free what it held (nothing if it
-- awaits others), and cancel what awaits it. The caller has locked it, and handed back what was
-- running. Result: whether there was one.
CREATE FUNCTION cancel_one(now bigint, in_id text, reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    was job;
BEGIN
    SELECT j.* INTO was FROM job j WHERE j.id = in_id AND j.ended_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF was.status = 'pending' THEN
        PERFORM leave_lane(in_id);
        was.permits := NULL;  -- those of an attempt before
    END IF;
    PERFORM end_cancelled(now, in_id, was.token + 1, reason);
    IF was.awaits = 0 AND coalesce(was.concurrency_key, was.permits) IS NOT NULL THEN
        PERFORM lock_limits();
        PERFORM release(now, was.concurrency_key, was.permits);
    END IF;
    PERFORM miss(now, in_id, was.gather, 'cancelled');
    RETURN true;
END
$$;
