-- release(now, concurrency key, permits): free what one job held, ring for each freed permit, and
-- let go of the first held job per lane and limit of its key.
-- permits: keys of gates joined by U+001F, or NULL. The gates must be held (hold_gates).
CREATE FUNCTION release(now bigint, in_key text, in_permits text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    freed_key text;
BEGIN
    FOREACH freed_key IN ARRAY coalesce(string_to_array(in_permits, chr(31)), '{}') LOOP
        UPDATE gate SET used = used - 1 WHERE key = freed_key;
        PERFORM ring_gate(now, freed_key);
    END LOOP;
    IF in_key IS NOT NULL THEN
        PERFORM let_go(now, in_key);
    END IF;
END
$$;

-- let_go(now, key): let the first held job of each lane and limit stand in its place again, where a
-- permit is free for it. Jobs that another transaction is ending are passed over.
CREATE FUNCTION let_go(now bigint, in_key text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    in_use integer := coalesce((SELECT used FROM gate WHERE key = 'key:' || in_key), 0);
    free record;
BEGIN
    FOR free IN
        WITH first AS (
            SELECT DISTINCT ON (queue, scope, lane_priority, concurrency_limit) ctid AS at
            FROM job
            WHERE held AND awaits = 0 AND concurrency_key = in_key AND concurrency_limit > in_use
            ORDER BY queue, scope, lane_priority, concurrency_limit, due, sequence
        ), locked AS (
            SELECT j.ctid AS at FROM job j JOIN first f ON j.ctid = f.at
            FOR UPDATE OF j SKIP LOCKED
        )
        UPDATE job j SET held = false, called = false FROM locked l WHERE j.ctid = l.at
        RETURNING j.id, lane_name(j.queue, j.scope, j.lane_priority) AS lane, j.due
    LOOP
        IF ring_lane(now, free.lane, free.due, 1) > 0 THEN
            UPDATE job SET called = true WHERE id = free.id;
        END IF;
    END LOOP;
END
$$;
