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
        WITH RECURSIVE first AS (  -- from one lane and limit to the next, not through all that wait
            (SELECT ctid AS at, lane, concurrency_limit FROM waiting
             WHERE held AND concurrency_key = in_key AND concurrency_limit > in_use
             ORDER BY lane, concurrency_limit, due, sequence LIMIT 1)
            UNION ALL
            SELECT n.* FROM first f CROSS JOIN LATERAL (
                SELECT ctid, lane, concurrency_limit FROM waiting
                WHERE held AND concurrency_key = in_key AND concurrency_limit > in_use
                  AND (lane, concurrency_limit) > (f.lane, f.concurrency_limit)
                ORDER BY lane, concurrency_limit, due, sequence LIMIT 1
            ) n
        ), locked AS (
            SELECT w.ctid AS at FROM waiting w JOIN first f ON w.ctid = f.at
            FOR UPDATE OF w SKIP LOCKED
        )
        UPDATE waiting w SET held = false, called = false FROM locked l WHERE w.ctid = l.at
        RETURNING w.ctid AS at, w.lane, w.due
    LOOP
        IF ring_lane(now, free.lane, free.due, 1) > 0 THEN
            UPDATE waiting SET called = true WHERE ctid = free.at;
        END IF;
    END LOOP;
END
$$;
