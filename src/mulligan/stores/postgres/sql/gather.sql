-- Fan-in: jobs arrive at the one that gathers them, and one that cannot arrive cancels it.

-- failure_value(job, type, reason, attempts): a failure as it arrives. As in core/gather.py.
CREATE FUNCTION failure_value(job text, type text, reason text, attempts integer) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
    SELECT convert_to(format('{"$failure":{"job":%s,"type":%s,"reason":%s,"attempts":%s}}',
                             to_json(job), to_json(type), to_json(reason), attempts), 'UTF8')
$$;

-- arrives_at(index, how, return_exceptions): where the end of a member is kept with the job that
-- gathers it: a failure that is only noted below 0.
CREATE FUNCTION arrives_at(index integer, how text, return_exceptions boolean) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN how = 'done' OR return_exceptions THEN index ELSE -1 - index END
$$;

-- arrive(now, gathers, indexes, results, hows, ords, numbers, parents): members have ended and
-- arrive, each at its `gather_index`, where the gathering job still awaits it. The last lets that
-- job join its lane. hows: done, failed or cancelled, or NULL if all are done; one that is cancelled
-- arrives only where failures do. ords: which outcome of the batch each was. numbers, parents: those
-- of `commit`, or NULL.
CREATE FUNCTION arrive(
    now bigint, gathers text[], indexes integer[], results bytea[], hows text[], ords bigint[],
    numbers bigint[], parents integer[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    complete record;
BEGIN
    PERFORM FROM job j WHERE j.id = ANY (gathers) AND j.awaits > 0 AND j.status = 'pending'
    ORDER BY j.id FOR UPDATE;
    FOR complete IN
        WITH coming AS (
            SELECT u.gather, u.result, u.ord, coalesce(u.how, 'done') AS how, g.awaits,
                   arrives_at(u.index, coalesce(u.how, 'done'), g.return_exceptions) AS at
            FROM unnest(gathers, indexes, results, hows, ords) AS u (gather, index, result, how, ord)
            JOIN job g ON g.id = u.gather AND g.awaits > 0 AND g.status = 'pending'
            WHERE g.return_exceptions OR NOT EXISTS (  -- what is cancelled ends the gathering job
                SELECT FROM unnest(gathers, hows, ords) AS c (gather, how, ord)
                WHERE c.gather = u.gather AND c.how = 'cancelled' AND c.ord <= u.ord)
        ), first AS (
            SELECT DISTINCT ON (c.gather, c.at) c.* FROM coming c
            WHERE NOT EXISTS (
                SELECT FROM arrival a WHERE a.job = c.gather AND a.gather_index = c.at)
            ORDER BY c.gather, c.at, c.ord
        ), awaited AS (
            SELECT f.*, sum((f.at >= 0)::integer) OVER (PARTITION BY f.gather ORDER BY f.ord) AS upto
            FROM first f
        ), kept AS (
            SELECT w.* FROM awaited w
            WHERE CASE WHEN w.at >= 0 THEN w.upto <= w.awaits ELSE w.upto < w.awaits END
        ), stored AS (
            INSERT INTO arrival (job, gather_index, result) SELECT k.gather, k.at, k.result FROM kept k
        ), counted AS (
            UPDATE job j SET awaits = j.awaits - c.many,
                             members_failed = j.members_failed + c.failed,
                             members_cancelled = j.members_cancelled + c.cancelled
            FROM (SELECT k.gather, count(*) FILTER (WHERE k.at >= 0) AS many,
                         count(*) FILTER (WHERE k.how = 'failed') AS failed,
                         count(*) FILTER (WHERE k.how = 'cancelled') AS cancelled,
                         max(k.ord) FILTER (WHERE k.at >= 0) AS last
                  FROM kept k GROUP BY 1) c
            WHERE j.id = c.gather
            RETURNING j.id, j.awaits, c.last
        )
        SELECT c.id, c.last FROM counted c WHERE c.awaits = 0 ORDER BY c.last
    LOOP
        PERFORM leave_lane(now, complete.id);
        UPDATE job j SET
            due = now, delayed = false,
            sequence = coalesce(
                numbers[complete.last + (SELECT count(*) FROM unnest(parents) AS p
                                         WHERE p < complete.last)],
                nextval('counter'))
        WHERE j.id = complete.id;
        PERFORM join_lane(now, complete.id, NULL);
    END LOOP;
END
$$;

-- awaited_in_line(gathers): whether one of these gathering jobs will stand in a line. The limits are
-- locked before it.
CREATE FUNCTION awaited_in_line(gathers text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN gathers IS NOT NULL AND EXISTS (
        SELECT FROM job j WHERE j.id = ANY (gathers)
          AND (j.limits IS NOT NULL OR j.fairness_key IS NOT NULL));
END
$$;

-- withdraw(id): a failed member is replayed: it is awaited again, if it still can be. The caller has
-- locked the job that awaits it.
CREATE FUNCTION withdraw(in_id text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    above record;
BEGIN
    SELECT g.id, arrives_at(j.gather_index, 'failed', g.return_exceptions) AS at INTO above
    FROM job j JOIN job g ON g.id = j.gather AND g.awaits > 0 AND g.status = 'pending'
    WHERE j.id = in_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM arrival a
    WHERE a.job = above.id AND a.gather_index = above.at
      AND in_id = CASE WHEN substring(a.result FROM 1 FOR 12) = '{"$failure":'::bytea
                       THEN convert_from(a.result, 'UTF8')::json #>> '{$failure,job}' END;
    IF FOUND THEN
        UPDATE job SET members_failed = members_failed - 1,
                       awaits = awaits + (above.at >= 0)::integer
        WHERE id = above.id;
    END IF;
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

-- miss(now, id, gather, index, reason, attempts): a cancelled job arrives as a failure, or cancels the
-- one that awaits its result.
CREATE FUNCTION miss(
    now bigint, in_id text, in_gather text, in_index integer, reason text, attempts integer
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    wants_failures boolean;
BEGIN
    SELECT g.return_exceptions INTO wants_failures FROM job g
    WHERE g.id = in_gather AND g.awaits > 0 AND g.status = 'pending';
    IF wants_failures THEN
        PERFORM arrive(now, ARRAY[in_gather], ARRAY[in_index], ARRAY[failure_value(
            in_id, CASE reason WHEN 'expired before it could start' THEN 'Expired'
                               ELSE 'Cancelled' END, reason, attempts)],
            ARRAY['cancelled'], ARRAY[1::bigint], NULL, NULL);
    ELSIF NOT wants_failures THEN
        PERFORM cancel_one(now, in_gather, format('job %s, which it awaits, was cancelled', in_id));
    END IF;
END
$$;

-- miss_purged(now, id, gather, index, reason, attempts): the same for a failed job that is purged: it
-- cannot be replayed any more.
CREATE FUNCTION miss_purged(
    now bigint, in_id text, in_gather text, in_index integer, reason text, attempts integer
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    wants_failures boolean;
BEGIN
    SELECT g.return_exceptions INTO wants_failures FROM job g
    WHERE g.id = in_gather AND g.awaits > 0 AND g.status = 'pending';
    IF wants_failures THEN
        PERFORM arrive(now, ARRAY[in_gather], ARRAY[in_index],
                       ARRAY[failure_value(in_id, 'Purged', coalesce(reason, ''), attempts)],
                       ARRAY['failed'], ARRAY[1::bigint], NULL, NULL);
    ELSIF NOT wants_failures THEN
        PERFORM cancel_one(now, in_gather, format('job %s, which it awaits, was purged', in_id));
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
        PERFORM leave_lane(now, in_id);
        was.permits := NULL;  -- those of an attempt before
        was.holds := NULL;
    END IF;
    PERFORM end_cancelled(now, in_id, was.token + 1, reason);
    IF coalesce(was.holds, was.permits) IS NOT NULL THEN
        PERFORM lock_limits();
        PERFORM release(now, was.permits);
        PERFORM free_limits(now, was.holds, NULL);
    END IF;
    PERFORM miss(now, in_id, was.gather, was.gather_index, reason,
                 was.retry_count + (was.status = 'processing')::integer);
    RETURN true;
END
$$;
