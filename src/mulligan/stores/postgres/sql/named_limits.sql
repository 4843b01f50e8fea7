-- Limits that jobs name: the rule of core/limits.py, which is the oracle, under the same names. The
-- comparison tests hold this to it. Whoever calls these holds the limits (lock_limits), but for
-- readers. What never has room by itself has it at the last number there is.

-- limit_of(name): what holds for the name; no row if nothing does.
CREATE FUNCTION limit_of(in_name text) RETURNS SETOF named_limit
LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
    RETURN QUERY SELECT n.* FROM named_limit n WHERE n.name = in_name;
    IF NOT FOUND THEN
        RETURN QUERY
        SELECT n.* FROM named_limit n
        WHERE n.name LIKE '%*' AND starts_with(in_name, left(n.name, -1))
        ORDER BY length(n.name) DESC LIMIT 1;
    END IF;
END
$$;

-- price(limit, cost): how long the bucket takes to refill this cost, rounded up: unit by unit where
-- units are long, as core/limits.py says. Of a debt beyond its MOST_OWED and LATEST, no more.
CREATE FUNCTION price(l named_limit, cost bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN l.per / l.rate >= 1000
        THEN least(9007199254740992, least(cost, 1000000000)::float8
                                     * ((l.per + l.rate - 1) / l.rate)::float8)::bigint
        ELSE least(cost, 1000000000) * (l.per / l.rate)
             + (least(cost, 1000000000) * (l.per % l.rate) + l.rate - 1) / l.rate END
$$;

-- allowance(limit): how long an empty bucket takes to fill: by units as above, or rounded down.
CREATE FUNCTION allowance(l named_limit) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN l.per / l.rate >= 1000 THEN l.burst * ((l.per + l.rate - 1) / l.rate)
        ELSE l.burst * (l.per / l.rate) + l.burst * (l.per % l.rate) / l.rate END
$$;

-- bounded(limit, cost): the cost, or what the limit was lowered to since.
CREATE FUNCTION bounded(l named_limit, cost bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT least(cost, coalesce(l.burst, l.rate))
$$;

-- counted_at(limit, now): the time under which a start is counted.
CREATE FUNCTION counted_at(l named_limit, now bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    part bigint := greatest(1, l.per / 256);
BEGIN
    RETURN CASE WHEN l.rate <= 256 THEN now ELSE (now + part - 1) / part * part END;
END
$$;

-- room_at(now, name, cost): when there is room for a job of this cost if nothing else happens.
CREATE FUNCTION room_at(now bigint, in_name text, cost bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    rule named_limit;
    state limit_state;
    at bigint;
    room bigint;
BEGIN
    SELECT * INTO state FROM limit_state s WHERE s.name = in_name;
    SELECT * INTO rule FROM limit_of(in_name);
    at := greatest(now, state.paused_until);
    IF rule.name IS NULL THEN
        RETURN at;
    ELSIF state.used >= rule.concurrency THEN
        RETURN 9223372036854775807;
    ELSIF rule.rate IS NULL THEN
        RETURN at;
    ELSIF rule.burst IS NOT NULL THEN
        RETURN greatest(at, coalesce(state.full_at, 0) + price(rule, bounded(rule, cost))
                            - allowance(rule));
    END IF;
    room := rule.rate - bounded(rule, cost);
    FOR i IN REVERSE coalesce(cardinality(state.starts), 0) .. 1 LOOP
        room := room - state.start_costs[i];
        IF room < 0 THEN
            RETURN greatest(at, state.starts[i] + rule.per);
        END IF;
    END LOOP;
    RETURN at;
END
$$;

-- rooms(now, name, cost, most): how many jobs of this cost could start now, up to `most`, if one
-- could.
CREATE FUNCTION rooms(now bigint, in_name text, cost bigint, most bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    rule named_limit;
    state limit_state;
BEGIN
    SELECT * INTO rule FROM limit_of(in_name);
    IF rule.name IS NULL THEN
        RETURN most;
    END IF;
    SELECT * INTO state FROM limit_state s WHERE s.name = in_name;
    IF rule.concurrency IS NOT NULL THEN
        most := least(most, rule.concurrency - coalesce(state.used, 0));
    END IF;
    IF rule.burst IS NOT NULL THEN
        most := least(most, (now + allowance(rule) - greatest(state.full_at, now))
                            / greatest(1, price(rule, cost)));
    ELSIF rule.rate IS NOT NULL THEN
        FOR i IN REVERSE coalesce(cardinality(state.starts), 0) .. 1 LOOP
            EXIT WHEN state.starts[i] + rule.per <= now;
            rule.rate := rule.rate - state.start_costs[i];
        END LOOP;
        most := least(most, rule.rate / cost);
    END IF;
    RETURN greatest(1, most);
END
$$;

-- charge(now, name, cost, many, permits): count so many starts of this cost, or what a job says
-- later that it has spent; so many more permits are held.
CREATE FUNCTION charge(now bigint, in_name text, cost bigint, many bigint, permits bigint)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    rule named_limit;
    state limit_state;
    at bigint;
    last integer;
    gone integer := 0;
BEGIN
    SELECT * INTO rule FROM limit_of(in_name);
    IF rule.rate IS NULL THEN
        IF permits > 0 THEN
            INSERT INTO limit_state AS s (name, used) VALUES (in_name, permits)
            ON CONFLICT (name) DO UPDATE SET used = s.used + excluded.used;
        END IF;
        RETURN;
    ELSIF rule.burst IS NOT NULL THEN
        INSERT INTO limit_state AS s (name, used, full_at)
        VALUES (in_name, permits, least(9007199254740992, now + many * price(rule, cost)))
        ON CONFLICT (name) DO UPDATE SET used = s.used + excluded.used,
            full_at = least(9007199254740992,
                            greatest(s.full_at, now) + many * price(rule, cost));
        RETURN;
    END IF;
    at := counted_at(rule, now);
    SELECT * INTO state FROM limit_state s WHERE s.name = in_name;
    last := coalesce(cardinality(state.starts), 0);
    WHILE gone < last AND state.starts[gone + 1] + rule.per <= now LOOP
        gone := gone + 1;
    END LOOP;
    IF gone > 0 THEN
        state.starts := state.starts[gone + 1:];
        state.start_costs := state.start_costs[gone + 1:];
        last := last - gone;
    END IF;
    IF last > 0 AND state.starts[last] >= at THEN
        state.start_costs[last] := state.start_costs[last] + many * cost;
    ELSE
        state.starts := state.starts || at;
        state.start_costs := state.start_costs || many * cost;
    END IF;
    INSERT INTO limit_state AS s (name, used, starts, start_costs)
    VALUES (in_name, permits, state.starts, state.start_costs)
    ON CONFLICT (name) DO UPDATE SET used = s.used + excluded.used, starts = excluded.starts,
        start_costs = excluded.start_costs;
END
$$;

-- refill(limit): how long the bucket takes to refill a cost of 1.
CREATE FUNCTION refill(l named_limit) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN l.per / l.rate >= 1000 THEN ((l.per + l.rate - 1) / l.rate)::float8
        ELSE l.per::float8 / l.rate::float8 END
$$;

-- is_recounted(was, rule): whether a limit that replaces another counts differently what was used
-- of that.
CREATE FUNCTION is_recounted(was named_limit, rule named_limit) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT was.rate IS NOT NULL AND rule.rate IS NOT NULL
       AND CASE WHEN was.burst IS NULL OR rule.burst IS NULL
                THEN (was.burst IS NULL) <> (rule.burst IS NULL)
                ELSE refill(was) <> refill(rule) END
$$;

-- recount(now, name, was): count what is used of a limit by the rate that replaces that of `was`.
CREATE FUNCTION recount(now bigint, in_name text, was named_limit) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    rule named_limit;
    state limit_state;
    lacking float8;
BEGIN
    SELECT * INTO rule FROM limit_of(in_name);
    IF is_recounted(was, rule) IS NOT TRUE THEN
        RETURN;
    END IF;
    SELECT * INTO state FROM limit_state s WHERE s.name = in_name;
    IF was.burst IS NULL THEN
        FOR i IN 1 .. cardinality(state.starts) LOOP
            IF state.starts[i] + was.per > now THEN
                state.full_at := least(9007199254740992,
                    greatest(state.full_at, least(now, state.starts[i]))
                    + price(rule, state.start_costs[i]));
            END IF;
        END LOOP;
        UPDATE limit_state SET full_at = state.full_at, starts = '{}', start_costs = '{}'
        WHERE name = in_name;
    ELSE
        lacking := least(1000000000, greatest(0, state.full_at - now)::float8 / refill(was));
        UPDATE limit_state SET full_at = CASE WHEN rule.burst IS NULL THEN 0
            ELSE least(9007199254740992, now + ceil(lacking * refill(rule)))::bigint END
        WHERE name = in_name;
        IF rule.burst IS NULL AND lacking > 0 THEN
            PERFORM charge(now, in_name, ceil(lacking)::bigint, 1, 0);
        END IF;
    END IF;
    PERFORM forget_idle(now, in_name);
END
$$;

-- refund(now, name, cost, started): take back the charge of a start that never was.
CREATE FUNCTION refund(now bigint, in_name text, cost bigint, started bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    rule named_limit;
    state limit_state;
    at bigint;
BEGIN
    SELECT * INTO rule FROM limit_of(in_name);
    IF rule.rate IS NULL THEN
        RETURN;
    ELSIF rule.burst IS NOT NULL THEN
        UPDATE limit_state SET full_at = full_at - price(rule, cost) WHERE name = in_name;
        RETURN;
    END IF;
    at := counted_at(rule, started);
    IF at + rule.per <= now THEN
        RETURN;
    END IF;
    SELECT * INTO state FROM limit_state s WHERE s.name = in_name;
    FOR i IN 1 .. cardinality(state.starts) LOOP
        IF state.starts[i] >= at THEN
            UPDATE limit_state SET start_costs[i] = greatest(0, start_costs[i] - cost)
            WHERE name = in_name;
            RETURN;
        END IF;
    END LOOP;
END
$$;

-- forget_idle(now, name): forget what is used of a name if that says no more than nothing would.
CREATE FUNCTION forget_idle(now bigint, in_name text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    window_of bigint;
BEGIN
    SELECT CASE WHEN l.rate IS NOT NULL THEN l.per END INTO window_of FROM limit_of(in_name) l;
    DELETE FROM limit_state s
    WHERE s.name = in_name AND s.used = 0
      AND greatest(s.full_at, s.paused_until, s.starts[cardinality(s.starts)] + window_of) <= now;
END
$$;

-- note_use(now, use, limits): charge what an attempt spent of limits besides, and pause those that
-- it says to pause. use: core's LimitUse as JSON, times in microseconds, those without end NULL.
-- limits: those that its job names.
CREATE FUNCTION note_use(now bigint, use jsonb, limits text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    said record;
BEGIN
    FOR said IN SELECT s ->> 0 AS name, (s ->> 1)::bigint AS cost
                FROM jsonb_array_elements(use -> 'spent') AS s LOOP
        PERFORM charge(now, said.name, said.cost, 1, 0);
        PERFORM forget_idle(now, said.name);
    END LOOP;
    FOR said IN
        SELECT p ->> 0 AS name, (p ->> 1)::bigint AS length
        FROM jsonb_array_elements(use -> 'pauses') AS p
        UNION ALL
        SELECT n.name, (use ->> 'retry_after')::bigint
        FROM json_object_keys(limits::json) AS n (name)
        WHERE use ? 'retry_after'
          AND (SELECT l.pauses FROM limit_of(n.name) l)
    LOOP
        PERFORM set_pause(now, said.name, said.length, true);
    END LOOP;
END
$$;

-- free_limits(now, limits, refund_from): a job that named these holds permits of them no more, and
-- others may have them; what it was charged when it started then is refunded, if it never ran.
CREATE FUNCTION free_limits(now bigint, limits text, refund_from bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    held record;
BEGIN
    FOR held IN SELECT e.key AS name, e.value::bigint AS cost
                FROM json_each_text(limits::json) AS e LOOP
        UPDATE limit_state SET used = used - 1 WHERE name = held.name;
        IF refund_from IS NOT NULL THEN
            PERFORM refund(now, held.name, held.cost, refund_from);
        END IF;
        PERFORM forget_idle(now, held.name);
        PERFORM opened(now, held.name, 1);
    END LOOP;
END
$$;

-- free_all(now, limits): the same for many jobs that ran, one after the other. Each permit lets at
-- most one line of a lane go on, if there was room with it.
CREATE FUNCTION free_all(now bigint, all_limits text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    freed record;
    still_used bigint;
BEGIN
    FOR freed IN
        SELECT n.name, sum(h.many)::bigint AS many
        FROM (SELECT u.limits, count(*) AS many FROM unnest(all_limits) AS u (limits) GROUP BY 1) h
        CROSS JOIN LATERAL json_object_keys(h.limits::json) AS n (name)
        GROUP BY 1 ORDER BY n.name COLLATE "C"
    LOOP
        UPDATE limit_state SET used = used - freed.many WHERE name = freed.name
        RETURNING used INTO still_used;
        PERFORM forget_idle(now, freed.name);
        PERFORM opened(now, freed.name, least(freed.many, coalesce((
            SELECT l.concurrency - still_used FROM limit_of(freed.name) l), freed.many)));
    END LOOP;
END
$$;

-- set_limit(given, name, limit, declared): store a limit, as JSON, as an app declares it or as an
-- operator sets it; NULL: none. Who waits may have room now.
CREATE FUNCTION set_limit(given bigint, in_name text, in_limit text, in_declared boolean)
RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint;
    before record;
    rule json;
    waited_for text;
    covered text[];
    were named_limit[];
BEGIN
    PERFORM lock_limits();
    now := instant(given);
    SELECT n.declared, n.set_instead INTO before FROM named_limit n WHERE n.name = in_name;
    IF in_limit IS NOT DISTINCT FROM (
        CASE WHEN in_declared THEN before.declared ELSE before.set_instead END) THEN
        RETURN;
    ELSIF in_declared THEN
        before.declared := in_limit;
    ELSE
        before.set_instead := in_limit;
    END IF;
    rule := coalesce(before.set_instead, before.declared);
    SELECT array_agg(s.name), array_agg(l) INTO covered, were
    FROM limit_state s CROSS JOIN LATERAL limit_of(s.name) l
    WHERE s.name = in_name
       OR (in_name LIKE '%*' AND starts_with(s.name, left(in_name, -1)));
    DELETE FROM named_limit WHERE name = in_name;
    IF rule IS NOT NULL THEN
        INSERT INTO named_limit (name, concurrency, rate, per, burst, pauses, declared, set_instead)
        VALUES (in_name, (rule ->> 'concurrency')::bigint, (rule ->> 'rate')::bigint,
                round(coalesce((rule ->> 'per')::float8, 1) * 1000000)::bigint,
                (rule ->> 'burst')::bigint,
                coalesce((rule ->> 'pause_on_retry_after')::boolean, false),
                before.declared, before.set_instead);
    END IF;
    FOR i IN 1 .. coalesce(cardinality(covered), 0) LOOP
        PERFORM recount(now, covered[i], were[i]);
    END LOOP;
    FOR waited_for IN
        SELECT DISTINCT l.waits_for FROM line l
        WHERE l.waits_for IS NOT NULL
          AND (l.waits_for = in_name
               OR (in_name LIKE '%*' AND starts_with(l.waits_for, left(in_name, -1))))
        ORDER BY 1
    LOOP
        PERFORM opened(now, waited_for, 1);
    END LOOP;
END
$$;

-- set_pause(now, name, length, at_least): let nobody of the limit start for so long, or for ever if
-- it is NULL; `at_least` never shortens a pause.
CREATE FUNCTION set_pause(now bigint, in_name text, length bigint, at_least boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO limit_state AS s (name, paused_until)
    VALUES (in_name, coalesce(now + length, 9223372036854775807))
    ON CONFLICT (name) DO UPDATE
    SET paused_until = greatest(excluded.paused_until, CASE WHEN at_least THEN s.paused_until END);
    PERFORM forget_idle(now, in_name);
END
$$;

-- pause_limit(given, name, length, at_least): as `set_pause`; a length of 0 ends a pause.
CREATE FUNCTION pause_limit(given bigint, in_name text, length bigint, at_least boolean)
RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint;
BEGIN
    PERFORM lock_limits();
    now := instant(given);
    PERFORM set_pause(now, in_name, length, at_least);
    PERFORM opened(now, in_name, 1);
END
$$;

-- spend(given, name, cost): charge a limit so much, room or not.
CREATE FUNCTION spend(given bigint, in_name text, cost bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now bigint;
BEGIN
    PERFORM lock_limits();
    now := instant(given);
    PERFORM charge(now, in_name, cost, 1, 0);
    PERFORM forget_idle(now, in_name);
END
$$;

-- limits(given, most): the limits that are stored or in use, in order of names; `holds` is what
-- holds for each, as JSON, and `jobs` how many stand in lines that wait there.
CREATE FUNCTION limits(given bigint, most integer) RETURNS TABLE (
    name text, declared text, set_instead text, holds text, used bigint, starts bigint[],
    start_costs bigint[], full_at bigint, paused_until bigint, jobs bigint, now bigint
)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    WITH stood AS (
        SELECT l.waits_for AS name, count(*) AS jobs
        FROM line l JOIN waiting w ON w.line = l.id WHERE l.waits_for IS NOT NULL GROUP BY 1
    ), known AS (
        SELECT n.name FROM named_limit n
        UNION SELECT s.name FROM limit_state s
        UNION SELECT w.name FROM stood w
        ORDER BY 1 LIMIT most
    )
    SELECT k.name, n.declared, n.set_instead,
           (SELECT coalesce(l.set_instead, l.declared) FROM limit_of(k.name) l),
           coalesce(s.used, 0), coalesce(s.starts, '{}'), coalesce(s.start_costs, '{}'),
           coalesce(s.full_at, 0), coalesce(s.paused_until, 0), coalesce(w.jobs, 0), instant(given)
    FROM known k
    LEFT JOIN named_limit n ON n.name = k.name
    LEFT JOIN limit_state s ON s.name = k.name
    LEFT JOIN stood w ON w.name = k.name
    ORDER BY 1
$$;

-- keys(queue, most): the fairness keys of the queue that have jobs waiting, those with most jobs
-- first; `turn` is the key's next one, `present` that of its lane.
CREATE FUNCTION keys(in_queue text, most integer) RETURNS TABLE (
    scope text, lane_priority integer, key text, jobs bigint, turn bigint, present bigint
)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT split_part(n.lane, chr(31), 2), split_part(n.lane, chr(31), 3)::integer, l.key, l.jobs,
           coalesce(k.turn, 0), n.turn
    FROM lined_lane n
    JOIN (
        SELECT l.lane, l.key, count(*) AS jobs FROM line l JOIN waiting w ON w.line = l.id
        WHERE l.key <> '' GROUP BY 1, 2
    ) l ON l.lane = n.id
    LEFT JOIN fairness_key k ON k.lane = n.id AND k.key = l.key
    WHERE starts_with(n.lane, in_queue || chr(31))
    ORDER BY 4 DESC, 1, 2, 3 LIMIT most
$$;
