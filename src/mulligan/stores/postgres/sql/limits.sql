-- The limits of a plan: what is used of them, how much room they have, and what a walk charges;
-- and how permits are given back. The limits are locked (lock_limits) by whoever calls these. What
-- the fields of `claim_plan` mean is in claim.sql.

-- read_limits(now, plan): forget starts that have left their window, and read what is used of each
-- key.
CREATE FUNCTION read_limits(now bigint, plan claim_plan)
RETURNS TABLE (ord bigint, used integer, started bigint)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    window_of record;
BEGIN
    INSERT INTO limit_use (key) SELECT k FROM unnest(plan.limit_keys) AS k ON CONFLICT DO NOTHING;
    FOR window_of IN
        SELECT plan.limit_keys[k] AS key, min(per) AS per FROM (
            SELECT u.key, u.per FROM unnest(plan.limit_key, plan.limit_per) AS u (key, per)
            UNION ALL SELECT u.key, u.per FROM unnest(plan.limit_of, plan.limit_per) AS u (key, per)
        ) AS w (k, per) WHERE k IS NOT NULL AND per IS NOT NULL GROUP BY 1
    LOOP
        WITH gone AS (
            DELETE FROM start s WHERE s.key = window_of.key AND s.at <= now - window_of.per
            RETURNING s.count
        ), total AS (SELECT sum(g.count) AS many FROM gone g)
        UPDATE limit_use l SET started = l.started - t.many FROM total t
        WHERE l.key = window_of.key AND t.many > 0;
    END LOOP;
    RETURN QUERY SELECT u.ord, l.used, l.started
    FROM unnest(plan.limit_keys) WITH ORDINALITY AS u (key, ord) JOIN limit_use l ON l.key = u.key;
END
$$;

-- limit_rooms(plan, used, started): how many more starts each limit allows, and each source by the
-- least room of its limits; NULL where there is no end.
CREATE FUNCTION limit_rooms(
    plan claim_plan, used integer[], started bigint[], OUT limits bigint[], OUT sources bigint[]
)
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    limit_key integer[] := plan.limit_key;
    limit_most integer[] := plan.limit_most;
    limit_of integer[] := plan.limit_of;
    limited_source integer[] := plan.limited_source;
    room bigint;
BEGIN
    limits := '{}';
    FOR l IN 1 .. cardinality(limit_key) LOOP
        room := NULL;
        IF plan.limit_is_cap[l] THEN
            room := limit_most[l] - used[limit_key[l]];
        ELSIF limit_most[l] IS NOT NULL THEN
            room := greatest(limit_most[l],
                             trunc(plan.limit_ratio[l] * started[limit_of[l]])::bigint)
                    - started[limit_key[l]];
        END IF;
        limits := limits || room;
    END LOOP;
    sources := array_fill(NULL::bigint, ARRAY[cardinality(plan.lanes)]);
    FOR l IN 1 .. cardinality(limited_source) LOOP
        sources[limited_source[l]] := least(sources[limited_source[l]],
                                            limits[plan.source_limit[l]]);
    END LOOP;
END
$$;

-- count_starts(plan, taken, used, started, charged): what the keys come to when a job of each of
-- the sources `taken` has started.
CREATE FUNCTION count_starts(
    plan claim_plan, taken integer[], INOUT used integer[], INOUT started bigint[],
    INOUT charged integer[]
)
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    limited_source integer[] := plan.limited_source;
    one integer;
    key integer;
BEGIN
    FOREACH one IN ARRAY taken LOOP
        FOR l IN 1 .. cardinality(limited_source) LOOP
            CONTINUE WHEN limited_source[l] <> one;
            key := plan.limit_key[plan.source_limit[l]];
            IF plan.limit_is_cap[plan.source_limit[l]] THEN
                used[key] := used[key] + 1;
            ELSE
                started[key] := started[key] + 1;
                charged[key] := charged[key] + 1;
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- reopens_in(now, plan, source, wait, room): microseconds until every limit of the source has room
-- by itself, at least `wait`; the largest bigint if only another job's end can give it. room: of
-- each limit.
CREATE FUNCTION reopens_in(
    now bigint, plan claim_plan, in_source integer, wait bigint, room bigint[]
) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    limited_source integer[] := plan.limited_source;
    this integer;
    longest bigint := wait;
    oldest bigint;
BEGIN
    FOR l IN 1 .. cardinality(limited_source) LOOP
        CONTINUE WHEN limited_source[l] <> in_source;
        this := plan.source_limit[l];
        CONTINUE WHEN coalesce(room[this] > 0, true);
        SELECT min(s.at) INTO oldest FROM start s
        WHERE s.key = plan.limit_keys[plan.limit_key[this]];
        IF plan.limit_is_cap[this] OR oldest IS NULL THEN
            RETURN 9223372036854775807;
        END IF;
        longest := greatest(longest, oldest + plan.limit_per[this] - now);
    END LOOP;
    RETURN longest;
END
$$;

-- charge_limits(now, plan, used, charged): write what a walk took. A limit that only counts needs
-- no exact window: a second each is enough, rounded down.
CREATE FUNCTION charge_limits(
    now bigint, plan claim_plan, in_used integer[], charged integer[]
) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE limit_use l SET used = in_used[u.ord], started = l.started + charged[u.ord]
    FROM unnest(plan.limit_keys) WITH ORDINALITY AS u (key, ord)
    WHERE l.key = u.key AND (l.used <> in_used[u.ord] OR charged[u.ord] > 0);
    INSERT INTO start AS s (key, at, count)
    SELECT plan.limit_keys[k.key],
           CASE WHEN k.only_counts THEN now / 1000000 * 1000000 ELSE now END, charged[k.key]
    FROM (
        SELECT u.key, bool_and(u.most IS NULL) AS only_counts
        FROM unnest(plan.limit_key, plan.limit_is_cap, plan.limit_most) AS u (key, is_cap, most)
        WHERE NOT u.is_cap GROUP BY u.key
    ) k
    WHERE charged[k.key] > 0
    ON CONFLICT (key, at) DO UPDATE SET count = s.count + excluded.count;
END
$$;

-- release(now, permits): free what one job held of the limits of plans, and wake one sleeper for each
-- freed permit.
-- permits: keys of limits joined by U+001F, or NULL.
CREATE FUNCTION release(now bigint, in_permits text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    freed_key text;
BEGIN
    FOREACH freed_key IN ARRAY coalesce(string_to_array(in_permits, chr(31)), '{}') LOOP
        UPDATE limit_use SET used = used - 1 WHERE key = freed_key;
        PERFORM wake_limit(now, freed_key);
    END LOOP;
END
$$;
