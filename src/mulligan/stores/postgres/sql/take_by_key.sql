-- What a walk takes at once from lines of many fairness keys that name no limits: the same, and in the
-- same order, as `next_line` and `started` of core/lines.py would give one by one. The comparison tests
-- hold this to it. The limits are locked.

-- take_by_key(now, lane, most, latest, steps, name, before, first): take what keys that take turns
-- would start one by one, of lines that name no limits, up to `most` jobs. Arguments are as those of
-- `take_line`. Result: the jobs; none if there is but one key, or the next line names limits.
CREATE FUNCTION take_by_key(
    now bigint, lane_id bigint, most bigint, latest bigint, turn_steps jsonb, in_lane text,
    before_due bigint, before_sequence bigint, first_due bigint, first_sequence bigint
) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    many bigint;              -- of the keys
    plain_turn bigint;        -- of those that stand in the lane itself
    taken record;
BEGIN
    SELECT count(*) INTO many FROM (
        SELECT FROM fairness_key k WHERE k.lane = lane_id AND k.due IS NOT NULL LIMIT most + 1) k;
    IF many < 2 THEN
        RETURN '{}';
    END IF;
    IF first_due <= now THEN
        plain_turn := key_turn(lane_id, '');
    END IF;
    IF many > most THEN
        SELECT t.* INTO taken
        FROM one_of_each(now, lane_id, most, latest, turn_steps, in_lane, before_due,
                         before_sequence, first_due, first_sequence, plain_turn) t;
    ELSE
        SELECT t.* INTO taken
        FROM some_of_each(now, lane_id, most, latest, turn_steps, in_lane, before_due,
                          before_sequence, first_due, first_sequence, plain_turn, many) t;
    END IF;
    IF taken.ids IS NULL THEN
        RETURN '{}';
    END IF;
    DELETE FROM waiting WHERE ctid = ANY (taken.rows);
    PERFORM go_on_by_key(now, lane_id, taken.present, taken.lines, taken.keys, taken.turns);
    RETURN taken.ids;
END
$$;

-- one_of_each(…, plain_turn): what `take_by_key` takes where there are more keys than it may take
-- jobs: the first job of each, up to where the second one of a key could be next. plain_turn: that
-- of the first job which stands in the lane itself, NULL if none is due.
-- Result: the jobs and their rows; each line that is taken from, with the row of its key and the
-- key's next turn; the turn of the last job.
CREATE FUNCTION one_of_each(
    now bigint, lane_id bigint, most bigint, latest bigint, turn_steps jsonb, in_lane text,
    before_due bigint, before_sequence bigint, first_due bigint, first_sequence bigint,
    plain_turn bigint,
    OUT ids text[], OUT rows tid[], OUT lines bigint[], OUT keys tid[], OUT turns bigint[],
    OUT present bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(g.id ORDER BY g.ord), array_agg(g.at), array_agg(g.line), array_agg(g.key_at),
           array_agg(g.next_turn), max(g.turn)
    INTO ids, rows, lines, keys, turns, present
    FROM (
        SELECT m.*, bool_and(coalesce(
            NOT m.named AND m.due <= latest AND (m.expires_at IS NULL OR m.expires_at > now)
            AND (m.due, m.sequence) < (before_due, before_sequence)
            AND (m.second_turn IS NULL OR m.turn < m.second_turn)
            AND (plain_turn IS NULL OR (m.turn, m.due, m.sequence)
                 < (greatest(plain_turn, m.last_turn), first_due, first_sequence)), false)
        ) OVER (ORDER BY m.ord) AS goes
        FROM (
            SELECT k.*, w.ctid AS at, w.id, w.expires_at,
                   row_number() OVER o AS ord, lag(k.turn) OVER o AS last_turn,
                   min(k.next_turn) OVER (o ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                   AS second_turn,
                   EXISTS (SELECT FROM line l WHERE l.lane = lane_id AND l.key = k.key
                             AND l.stage = 'ready' AND l.names <> '{}') AS named
            FROM (
                SELECT f.*, f.ctid AS key_at, f.turn + CASE WHEN turn_steps IS NULL THEN 1000000
                                          ELSE turn_step(turn_steps, in_lane, f.key) END
                            AS next_turn
                FROM fairness_key f WHERE f.lane = lane_id AND f.due IS NOT NULL
                ORDER BY f.turn, f.due, f.sequence LIMIT most
            ) k
            CROSS JOIN LATERAL (
                SELECT h.ctid, h.id, h.expires_at FROM waiting h
                WHERE h.line = k.line AND h.due = k.due AND h.sequence = k.sequence LIMIT 1
            ) w
            WINDOW o AS (ORDER BY k.turn, k.due, k.sequence)
        ) m
    ) g WHERE g.goes;
END
$$;

-- some_of_each(…, many): the same where there are so many keys, fewer than jobs may be taken. Each
-- key's jobs come one step after the other, so that the order of all is that of their turns.
CREATE FUNCTION some_of_each(
    now bigint, lane_id bigint, most bigint, latest bigint, turn_steps jsonb, in_lane text,
    before_due bigint, before_sequence bigint, first_due bigint, first_sequence bigint,
    plain_turn bigint, many bigint,
    OUT ids text[], OUT rows tid[], OUT lines bigint[], OUT keys tid[], OUT turns bigint[],
    OUT present bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    WITH keys AS MATERIALIZED (
        SELECT k.ctid AS key_at, k.turn, k.due, k.sequence, k.line,
               turn_step(turn_steps, in_lane, k.key) AS step,
               EXISTS (SELECT FROM line l WHERE l.lane = lane_id AND l.key = k.key
                         AND l.stage = 'ready' AND l.names <> '{}') AS ends
        FROM fairness_key k WHERE k.lane = lane_id AND k.due IS NOT NULL
    ), ends AS MATERIALIZED (  -- from here on, others may come in between
        SELECT e.turn, e.due, e.sequence FROM (
            SELECT k.turn, k.due, k.sequence FROM keys k WHERE k.ends
            UNION ALL
            SELECT k.turn + k.step * (most / many + 2), 0, 0 FROM keys k WHERE NOT k.ends
        ) e ORDER BY 1, 2, 3 LIMIT 1
    ), members AS (
        SELECT k.key_at, k.line, m.at, m.id, m.due, m.sequence, m.expires_at, k.step,
               k.turn + k.step * m.ord AS turn
        FROM keys k CROSS JOIN LATERAL (
            SELECT w.ctid AS at, w.id, w.due, w.sequence, w.expires_at,
                   row_number() OVER (ORDER BY w.due, w.sequence) - 1 AS ord
            FROM waiting w WHERE w.line = k.line ORDER BY w.due, w.sequence LIMIT most / many + 2
        ) m
        WHERE NOT k.ends AND m.due <= now
    ), going AS (
        SELECT m.*, row_number() OVER w AS ord, bool_and(coalesce(
            m.due <= latest AND (m.expires_at IS NULL OR m.expires_at > now)
            AND (m.due, m.sequence) < (before_due, before_sequence)
            AND (m.turn, m.due, m.sequence) < (e.turn, e.due, e.sequence)
            AND (plain_turn IS NULL OR (m.turn, m.due, m.sequence)
                 < (greatest(plain_turn, m.last_turn), first_due, first_sequence)), false)
        ) OVER w AS goes
        FROM (SELECT n.*, lag(n.turn) OVER (ORDER BY n.turn, n.due, n.sequence) AS last_turn
              FROM members n) m CROSS JOIN ends e
        WINDOW w AS (ORDER BY m.turn, m.due, m.sequence)
    ), taken AS (
        SELECT g.* FROM going g WHERE g.goes AND g.ord <= most
    ), by_line AS (
        SELECT t.line, t.key_at, max(t.turn + t.step) AS turn, max(t.turn) AS last
        FROM taken t GROUP BY 1, 2
    )
    SELECT (SELECT array_agg(t.id ORDER BY t.ord) FROM taken t),
           (SELECT array_agg(t.at) FROM taken t), max(b.last), array_agg(b.line), array_agg(b.key_at),
           array_agg(b.turn)
    INTO ids, rows, present, lines, keys, turns FROM by_line b;
END
$$;

-- go_on_by_key(now, lane, present, lines, keys, turns): jobs of these lines, which name no limits,
-- have started, the last of all in the turn `present`. keys: their rows; turns: their next ones.
CREATE FUNCTION go_on_by_key(
    now bigint, lane_id bigint, present bigint, lines bigint[], keys tid[], turns bigint[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    went bigint[];            -- those that have no jobs any more
    later bigint;             -- when the first is due of those that have
    here record;
BEGIN
    WITH next AS MATERIALIZED (
        SELECT u.line, u.key_at, u.turn, n.due, n.sequence
        FROM unnest(go_on_by_key.lines, go_on_by_key.keys, turns) AS u (line, key_at, turn)
        LEFT JOIN LATERAL (
            SELECT w.due, w.sequence FROM waiting w WHERE w.line = u.line
            ORDER BY w.due, w.sequence LIMIT 1
        ) n ON true
    ), lined AS (
        UPDATE line l SET due = n.due, sequence = n.sequence, woken = false,
                          stage = CASE WHEN n.due > now THEN 'later' ELSE 'ready' END
        FROM next n WHERE l.id = ANY (ARRAY[n.line]) AND n.due IS NOT NULL
    ), turned AS (
        UPDATE fairness_key k SET
            turn = n.turn, due = CASE WHEN n.due <= now THEN n.due END,
            sequence = CASE WHEN n.due <= now THEN n.sequence END,
            line = CASE WHEN n.due <= now THEN n.line END
        FROM next n WHERE k.ctid = n.key_at
    )
    SELECT array_agg(n.line) FILTER (WHERE n.due IS NULL), min(n.due) INTO went, later FROM next n;
    DELETE FROM line WHERE id = ANY (went);
    UPDATE lined_lane n SET turn = present, lines = n.lines - coalesce(cardinality(went), 0),
                            keyed = n.keyed - coalesce(cardinality(went), 0)
    WHERE n.id = lane_id RETURNING n.lines, n.keyed INTO here;
    DELETE FROM fairness_key k WHERE k.lane = lane_id AND k.due IS NULL AND k.turn <= present;
    IF here.keyed = 0 THEN
        PERFORM end_turns(lane_id);
        DELETE FROM lined_lane n WHERE n.id = lane_id AND n.lines = 0;
    END IF;
    IF later IS NOT NULL THEN
        PERFORM wake_line(now, lane_id, later);
    END IF;
END
$$;
