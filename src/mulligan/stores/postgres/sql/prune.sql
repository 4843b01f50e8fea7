-- prune(given, keep, limit, recent): delete done and cancelled jobs that ended longer ago than they
-- say, or than `keep`, and whatever else is past its time.
CREATE FUNCTION prune(given bigint, keep bigint, most integer, recent bigint) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    now bigint := instant(given);
    before bigint := now - keep;
    together record;
    whole bigint[] := '{}';
    old text[] := '{}';
    with_history text[];
BEGIN
    FOR together IN
        SELECT * FROM (
            SELECT e.number, e.ids, cardinality(e.ids) AS many FROM ended e WHERE e.until < now
            ORDER BY e.until LIMIT most FOR UPDATE SKIP LOCKED) own
        UNION ALL
        SELECT * FROM (
            SELECT e.number, e.ids, cardinality(e.ids) AS many FROM ended e
            WHERE e.until IS NULL AND e.ended_at < before
            ORDER BY e.ended_at LIMIT most FOR UPDATE SKIP LOCKED) others
    LOOP
        EXIT WHEN cardinality(old) >= most;
        IF cardinality(old) + together.many > most THEN
            UPDATE ended SET ids = together.ids[most - cardinality(old) + 1:]
            WHERE number = together.number;
            old := old || together.ids[:most - cardinality(old)];
        ELSE
            whole := whole || together.number;
            old := old || together.ids;
        END IF;
    END LOOP;
    DELETE FROM ended WHERE number = ANY (whole);
    -- One that was purged meanwhile may have been enqueued again. Who holds a job is waited for:
    -- with its row of `ended` gone, nobody would come back to it.
    WITH gone AS (
        DELETE FROM job WHERE ctid = ANY (ARRAY(
            SELECT j.ctid FROM job j
            WHERE j.id = ANY (old) AND j.dead IS NULL
              AND coalesce(j.ended_at + j.keep::bigint * 1000000 < now, j.ended_at < before)
            ORDER BY j.id FOR UPDATE))
        RETURNING id, failures, queue, status
    ), counted AS (
        INSERT INTO kept_change (many, queue, status)
        SELECT -count(*), g.queue, g.status FROM gone g GROUP BY g.queue, g.status
    )
    SELECT array_agg(g.id), array_agg(g.id) FILTER (WHERE g.failures > 0)
    INTO old, with_history FROM gone g;
    DELETE FROM attempt WHERE job = ANY (with_history);
    DELETE FROM arrival WHERE job = ANY (old);
    DELETE FROM recorded WHERE job = ANY (old);
    PERFORM tidy(now, most, recent);
    RETURN coalesce(cardinality(old), 0);
END
$$;

-- fold_kept(): add to `kept` what has changed since. Who folds at the same moment takes other rows;
-- keys are written in order.
CREATE FUNCTION fold_kept() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH changed AS (
        DELETE FROM kept_change WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM kept_change FOR UPDATE SKIP LOCKED))
        RETURNING many, queue, status
    )
    INSERT INTO kept AS k (queue, status, many)
    SELECT c.queue, c.status, sum(c.many) FROM changed c
    GROUP BY 1, 2 HAVING sum(c.many) <> 0 ORDER BY 1, 2
    ON CONFLICT (queue, status) DO UPDATE SET many = k.many + excluded.many;
END
$$;

-- tidy(now, limit, recent): forget what was used of limits and says nothing any more, workers that
-- stopped beating a day ago and hold nothing, counts that say nothing any more, and notes whose time
-- is over; and fold what is kept.
CREATE FUNCTION tidy(now bigint, most integer, recent bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM limit_state) THEN
        PERFORM lock_limits();
        PERFORM forget_idle(now, s.name) FROM limit_state s WHERE s.used = 0;
    END IF;
    DELETE FROM worker w WHERE w.beat_at < now - 86400000000 AND NOT EXISTS (
        SELECT FROM claimed c WHERE c.worker = w.id);
    DELETE FROM sleeper s WHERE NOT EXISTS (SELECT FROM worker w WHERE w.id = s.worker);
    DELETE FROM count_recent WHERE start < now - recent;
    DELETE FROM note WHERE until <= now;
    PERFORM fold_kept();
END
$$;
