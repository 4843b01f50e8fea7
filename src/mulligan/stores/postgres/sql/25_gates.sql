-- open_gates(now, keys, …): forget starts that have left their window, and read the gates.
CREATE FUNCTION open_gates(
    now bigint, keys text[], gate_key integer[], gate_per bigint[], gate_of integer[]
) RETURNS TABLE (ord bigint, used integer, started bigint)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    window_of record;
BEGIN
    INSERT INTO gate (key) SELECT k FROM unnest(keys) AS k ON CONFLICT DO NOTHING;
    FOR window_of IN
        SELECT keys[k] AS key, min(per) AS per FROM (
            SELECT u.key, u.per FROM unnest(gate_key, gate_per) AS u (key, per)
            UNION ALL SELECT u.key, u.per FROM unnest(gate_of, gate_per) AS u (key, per)
        ) AS w (k, per) WHERE k IS NOT NULL AND per IS NOT NULL GROUP BY 1
    LOOP
        WITH gone AS (
            DELETE FROM start s WHERE s.gate = window_of.key AND s.at <= now - window_of.per
            RETURNING s.count
        ), total AS (SELECT sum(g.count) AS many FROM gone g)
        UPDATE gate g SET started = g.started - t.many FROM total t
        WHERE g.key = window_of.key AND t.many > 0;
    END LOOP;
    RETURN QUERY SELECT u.ord, g.used, g.started
    FROM unnest(keys) WITH ORDINALITY AS u (key, ord) JOIN gate g ON g.key = u.key;
END
$$;

-- gate_rooms(…): how many more starts each gate allows, and each source by its closest gate;
-- NULL where there is no end.
CREATE FUNCTION gate_rooms(
    many integer, used integer[], started bigint[], gated_source integer[],
    source_gate integer[], gate_key integer[], gate_running boolean[], gate_limit integer[],
    gate_ratio float8[], gate_of integer[], OUT gates bigint[], OUT sources bigint[]
)
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    this bigint;
BEGIN
    gates := '{}';
    FOR g IN 1 .. cardinality(gate_key) LOOP
        this := NULL;
        IF gate_running[g] THEN
            this := gate_limit[g] - used[gate_key[g]];
        ELSIF gate_limit[g] IS NOT NULL THEN
            this := greatest(gate_limit[g], trunc(gate_ratio[g] * started[gate_of[g]])::bigint)
                    - started[gate_key[g]];
        END IF;
        gates := gates || this;
    END LOOP;
    sources := array_fill(NULL::bigint, ARRAY[many]);
    FOR g IN 1 .. cardinality(gated_source) LOOP
        sources[gated_source[g]] := least(sources[gated_source[g]], gates[source_gate[g]]);
    END LOOP;
END
$$;

-- count_starts(sources, …): what the keys come to when a job of each of these sources has started.
CREATE FUNCTION count_starts(
    sources integer[], INOUT used integer[], INOUT started bigint[], INOUT charged integer[],
    gated_source integer[], source_gate integer[], gate_key integer[], gate_running boolean[]
)
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    one integer;
    key integer;
BEGIN
    FOREACH one IN ARRAY sources LOOP
        FOR g IN 1 .. cardinality(gated_source) LOOP
            CONTINUE WHEN gated_source[g] <> one;
            key := gate_key[source_gate[g]];
            IF gate_running[source_gate[g]] THEN
                used[key] := used[key] + 1;
            ELSE
                started[key] := started[key] + 1;
                charged[key] := charged[key] + 1;
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- reopens_in(now, source, wait, …): microseconds until every closed gate of the source opens by
-- itself, at least `wait`; the largest bigint if only another job's end can open one.
CREATE FUNCTION reopens_in(
    now bigint, in_source integer, wait bigint, gated_source integer[], source_gate integer[],
    gate_room bigint[], gate_running boolean[], gate_per bigint[], gate_keys text[],
    gate_key integer[]
) RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    this integer;
    longest bigint := wait;
    oldest bigint;
BEGIN
    FOR g IN 1 .. cardinality(gated_source) LOOP
        this := source_gate[g];
        CONTINUE WHEN gated_source[g] <> in_source OR coalesce(gate_room[this] > 0, true);
        SELECT min(s.at) INTO oldest FROM start s WHERE s.gate = gate_keys[gate_key[this]];
        IF gate_running[this] OR oldest IS NULL THEN
            RETURN 9223372036854775807;
        END IF;
        longest := greatest(longest, oldest + gate_per[this] - now);
    END LOOP;
    RETURN longest;
END
$$;

-- charge_gates(now, keys, used, charged, …): write what a walk took. A gate that only counts
-- needs no exact window: a second each is enough, rounded down.
CREATE FUNCTION charge_gates(
    now bigint, keys text[], in_used integer[], charged integer[], gate_key integer[],
    gate_running boolean[], gate_limit integer[]
) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE gate g SET used = in_used[u.ord], started = g.started + charged[u.ord]
    FROM unnest(keys) WITH ORDINALITY AS u (key, ord)
    WHERE g.key = u.key AND (g.used <> in_used[u.ord] OR charged[u.ord] > 0);
    INSERT INTO start AS s (gate, at, count)
    SELECT keys[k.key], CASE WHEN k.counts THEN now / 1000000 * 1000000 ELSE now END, charged[k.key]
    FROM (
        SELECT u.key, bool_and(u.most IS NULL) AS counts
        FROM unnest(gate_key, gate_running, gate_limit) AS u (key, running, most)
        WHERE NOT u.running GROUP BY u.key
    ) k
    WHERE charged[k.key] > 0
    ON CONFLICT (gate, at) DO UPDATE SET count = s.count + excluded.count;
END
$$;
