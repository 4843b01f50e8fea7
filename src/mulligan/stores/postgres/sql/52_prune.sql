-- prune(given, keep, limit, recent): delete done and cancelled jobs that ended longer ago than
-- `keep`, and whatever else is past its time.
CREATE FUNCTION prune(given bigint, keep bigint, most integer, recent bigint) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    before bigint := instant(given) - keep;
    old tid[];
    old_ids text[];
    with_history text[];
BEGIN
    SELECT array_agg(c.at), array_agg(c.id), array_agg(c.id) FILTER (WHERE c.failures > 0)
    INTO old, old_ids, with_history
    FROM (
        SELECT e.ctid AS at, e.id, e.failures FROM ended e
        WHERE e.status <> 'failed' AND e.ended_at < before
        ORDER BY e.ended_at LIMIT most FOR UPDATE SKIP LOCKED
    ) c;
    DELETE FROM ended WHERE ctid = ANY (old);
    DELETE FROM attempt WHERE job = ANY (with_history);
    DELETE FROM arrival WHERE job = ANY (old_ids);
    PERFORM tidy(before + keep, most, recent);
    RETURN coalesce(cardinality(old), 0);
END
$$;

-- tidy(now, limit, recent): forget concurrency keys that nobody holds, workers that stopped beating
-- a day ago and hold nothing, counts that say nothing any more, and notes whose time is over.
CREATE FUNCTION tidy(now bigint, most integer, recent bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    DELETE FROM gate WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM gate WHERE used = 0 AND started = 0 AND key LIKE 'key:%'
        LIMIT most FOR UPDATE SKIP LOCKED));
    DELETE FROM worker w WHERE w.beat_at < now - 86400000000 AND NOT EXISTS (
        SELECT FROM job j WHERE j.status = 'processing' AND j.worker = w.id);
    DELETE FROM sleeper s WHERE NOT EXISTS (SELECT FROM worker w WHERE w.id = s.worker);
    DELETE FROM slot WHERE start < now - recent;
    DELETE FROM note WHERE until <= now
$$;
