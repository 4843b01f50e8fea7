-- What a walk does at lanes of which jobs stand in lines. The limits are locked.

-- lanes_up_to_date(now, lanes): the ids of those of these lanes that have lines, NULL where there are
-- none; the lines are brought up to the present first.
CREATE FUNCTION lanes_up_to_date(now bigint, lanes text[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    behind bigint;
BEGIN
    PERFORM let_in(now);
    ids := ARRAY(
        SELECT n.id FROM unnest(lanes) WITH ORDINALITY AS u (lane, ord)
        LEFT JOIN lined_lane n ON n.lane = u.lane ORDER BY u.ord);
    FOR behind IN SELECT DISTINCT u.id FROM unnest(ids) AS u (id) WHERE next_at(u.id) <= now LOOP
        PERFORM advance(now, behind);
    END LOOP;
    RETURN ids;
END
$$;

-- has_lines(lanes, sources): whether jobs stand in lines of a lane of these sources.
CREATE FUNCTION has_lines(lane_ids bigint[], sources integer[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    s integer;
BEGIN
    FOREACH s IN ARRAY sources LOOP
        IF lane_ids[s] IS NOT NULL THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;

-- lined_heads(now, lanes, first): for each source the line that is next in its lane, if it is one,
-- and the position of its head. lanes: their ids, NULL where there are no lines. first: the first
-- job that stands in the lane itself.
CREATE FUNCTION lined_heads(
    now bigint, lane_ids bigint[], first_due bigint[], first_sequence bigint[],
    OUT lines bigint[], OUT dues bigint[], OUT sequences bigint[]
)
LANGUAGE plpgsql AS $$
DECLARE
    next record;
BEGIN
    dues := first_due;
    sequences := first_sequence;
    lines := array_fill(NULL::bigint, ARRAY[cardinality(lane_ids)]);
    FOR s IN 1 .. cardinality(lane_ids) LOOP
        CONTINUE WHEN lane_ids[s] IS NULL;
        SELECT n.line, n.due, n.sequence INTO next
        FROM next_in_lane(now, lane_ids[s], first_due[s], first_sequence[s]) n;
        lines[s] := next.line;
        dues[s] := next.due;
        sequences[s] := next.sequence;
    END LOOP;
END
$$;

-- turn_step(steps, lane, key): how far apart the turns of the key are. steps: as in `claim_plan`.
CREATE FUNCTION turn_step(steps jsonb, lane text, key text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN coalesce((steps -> split_part(lane, chr(31), 1) ->> key)::bigint, 1000000);
END
$$;

-- take_lined(now, chunk, sources, …): take from that of these sources whose head is next, as many
-- as would be taken one by one, up to `chunk`. Arrays are by source, as in `claim`; first: the first
-- job that stands in the lane itself and has not been looked at.
-- Result: the source and the jobs; and those that were found expired and others await.
CREATE FUNCTION take_lined(
    now bigint, chunk bigint, sources integer[], lanes text[], lane_ids bigint[], waited bigint[],
    turn_steps jsonb, head_line bigint[], head_due bigint[], head_sequence bigint[],
    INOUT first_due bigint[], INOUT first_sequence bigint[],
    OUT source integer, OUT ids text[], OUT expired text[]
)
LANGUAGE plpgsql AS $$
DECLARE
    before_due bigint := 9223372036854775807;  -- the head of another lane that is next
    before_sequence bigint := 9223372036854775807;
    bound record;
    stood record;
    last record;
    batch tid[] := '{}';
    late text;
BEGIN
    FOR i IN 1 .. cardinality(sources) LOOP
        IF source IS NULL OR (head_due[sources[i]], head_sequence[sources[i]])
                             < (head_due[source], head_sequence[source]) THEN
            source := sources[i];
        END IF;
    END LOOP;
    FOR i IN 1 .. cardinality(sources) LOOP
        IF lanes[sources[i]] <> lanes[source] AND (head_due[sources[i]], head_sequence[sources[i]])
                                                  < (before_due, before_sequence) THEN
            before_due := head_due[sources[i]];
            before_sequence := head_sequence[sources[i]];
        END IF;
    END LOOP;
    expired := '{}';
    IF head_line[source] IS NOT NULL THEN
        IF chunk > 1 AND EXISTS (
            SELECT FROM line l WHERE l.id = head_line[source] AND l.names = '{}'
        ) THEN
            ids := take_by_key(now, lane_ids[source], chunk, now - waited[source], turn_steps,
                               lanes[source], before_due, before_sequence, first_due[source],
                               first_sequence[source]);
            IF ids <> '{}' THEN
                RETURN;
            END IF;
        END IF;
        SELECT t.ids, t.expired INTO ids, late FROM take_line(
            now, head_line[source], chunk, now - waited[source], turn_steps, lanes[source],
            before_due, before_sequence, first_due[source], first_sequence[source]) t;
        IF late IS NOT NULL THEN
            expired := ARRAY[late];
        END IF;
        RETURN;
    END IF;
    ids := '{}';
    IF lane_ids[source] IS NOT NULL THEN
        SELECT b.due, b.sequence, b.many INTO bound FROM before_lines(lane_ids[source]) b;
        chunk := least(chunk, bound.many);
        IF (bound.due, bound.sequence) < (before_due, before_sequence) THEN
            before_due := bound.due;
            before_sequence := bound.sequence;
        END IF;
    END IF;
    SELECT now - waited[source] AS due, 9223372036854775807 AS sequence INTO last;
    FOR stood IN
        SELECT w.ctid AS at, w.id, w.due, w.sequence, w.expires_at FROM waiting w
        WHERE of_lane(w, lanes[source]) AND NOT w.held
          AND (w.due, w.sequence) >= (first_due[source], first_sequence[source])
          AND (w.due, w.sequence) < (before_due, before_sequence) AND w.due <= now - waited[source]
        ORDER BY w.due, w.sequence LIMIT chunk
        FOR UPDATE SKIP LOCKED
    LOOP
        last := stood;
        IF stood.expires_at <= now THEN
            expired := expired || expire(now, stood.at);
        ELSE
            batch := batch || stood.at;
            ids := ids || stood.id;
        END IF;
    END LOOP;
    DELETE FROM waiting WHERE ctid = ANY (batch);
    expired := array_remove(expired, NULL);
    SELECT w.due, w.sequence INTO last FROM waiting w
    WHERE of_lane(w, lanes[source]) AND NOT w.held
      AND (w.due, w.sequence) > (last.due, last.sequence)
    ORDER BY w.due, w.sequence LIMIT 1;
    FOR s IN 1 .. cardinality(lanes) LOOP
        IF lanes[s] = lanes[source] THEN
            first_due[s] := last.due;
            first_sequence[s] := last.sequence;
        END IF;
    END LOOP;
    IF lane_ids[source] IS NOT NULL AND ids <> '{}' THEN
        PERFORM take_turns(lane_ids[source], '', turn_step(turn_steps, lanes[source], ''),
                           cardinality(ids));
    END IF;
END
$$;

-- before_lines(lane): the position before which jobs that stand in the lane itself go one after
-- the other, and how many of them; which is one where fairness keys take turns.
CREATE FUNCTION before_lines(
    lane_id bigint, OUT due bigint, OUT sequence bigint, OUT many bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM fairness_key k
               WHERE k.lane = lane_id AND k.due IS NOT NULL AND k.key <> '') THEN
        many := 1;
    END IF;
    SELECT k.due, k.sequence INTO due, sequence FROM fairness_key k
    WHERE k.lane = lane_id AND k.key = '' AND k.due IS NOT NULL;
END
$$;

-- take_line(now, line, most, latest, steps, lane, before, first): take the first job of a ready
-- line, and those behind it that would be next one by one, up to `most`, due by `latest` and before
-- the head of another lane. Or set the line aside, or end what has expired. steps: as in
-- `claim_plan`. first: the first job that stands in the lane itself.
-- Result: the jobs taken; expired: as of `expire`.
CREATE FUNCTION take_line(
    now bigint, line_id bigint, most bigint, latest bigint, turn_steps jsonb, in_lane text,
    before_due bigint, before_sequence bigint, first_due bigint, first_sequence bigint,
    OUT ids text[], OUT expired text
)
LANGUAGE plpgsql AS $$
DECLARE
    this line;
    step bigint;              -- how far apart the turns of its key are
    fair boolean;
    my_turn bigint;           -- of its first job
    plain_turn bigint;        -- of those that stand in the lane itself
    other record;             -- the best of the other keys
    rival record;             -- the first of the other ready lines of the key
    first record;
    batch tid[];
    at text;
BEGIN
    ids := '{}';
    SELECT l.* INTO this FROM line l WHERE l.id = line_id;
    step := turn_step(turn_steps, in_lane, this.key);
    SELECT w.ctid AS at, w.limits, w.expires_at <= now AS late INTO first FROM waiting w
    WHERE w.line = line_id AND w.due = this.due AND w.sequence = this.sequence;
    IF first.late THEN
        expired := expire(now, first.at);
        RETURN;
    END IF;
    at := lacks(now, this);
    IF at IS NOT NULL THEN
        PERFORM set_aside(now, this, at);
        RETURN;
    END IF;
    FOR i IN 1 .. cardinality(this.names) LOOP
        EXIT WHEN most = 1;
        most := rooms(now, this.names[i], this.costs[i], most);
        IF EXISTS (SELECT FROM line l WHERE l.waits_for = this.names[i] AND l.lane = this.lane)
        THEN
            most := 1;
        END IF;
    END LOOP;
    SELECT n.keyed > 0 INTO fair FROM lined_lane n WHERE n.id = this.lane;
    my_turn := key_turn(this.lane, this.key);
    SELECT NULL::bigint AS turn, NULL::bigint AS due, NULL::bigint AS sequence INTO other;
    rival := other;
    IF most > 1 THEN
        SELECT l.due, l.sequence INTO rival FROM first_ready(this.lane, this.key, line_id) l;
        IF fair THEN
            SELECT k.turn, k.due, k.sequence INTO other FROM fairness_key k
            WHERE k.lane = this.lane AND k.due IS NOT NULL AND k.key <> this.key
            ORDER BY k.turn, k.due, k.sequence LIMIT 1;
            plain_turn := key_turn(this.lane, '');
        END IF;
    END IF;
    SELECT array_agg(m.at ORDER BY m.ord), array_agg(m.id ORDER BY m.ord) INTO batch, ids
    FROM (
        SELECT q.*, bool_and(q.ord = 0 OR NOT coalesce(
            q.due > latest OR q.expires_at <= now OR q.limits IS DISTINCT FROM first.limits
            OR (q.due, q.sequence) > (before_due, before_sequence)
            OR (q.due, q.sequence) > (rival.due, rival.sequence)
            OR (my_turn + q.ord * step, q.due, q.sequence) > (other.turn, other.due, other.sequence)
            OR (first_due <= now AND (my_turn + q.ord * step, q.due, q.sequence) > (
                CASE WHEN this.key = '' THEN my_turn + q.ord * step
                     ELSE greatest(plain_turn, my_turn + (q.ord - 1) * step) END,
                first_due, first_sequence)), false)) OVER (ORDER BY q.ord) AS goes
        FROM (
            SELECT w.ctid AS at, w.id, w.due, w.sequence, w.limits, w.expires_at,
                   row_number() OVER (ORDER BY w.due, w.sequence) - 1 AS ord
            FROM waiting w WHERE w.line = line_id ORDER BY w.due, w.sequence LIMIT most
        ) q
    ) m WHERE m.goes;
    DELETE FROM waiting WHERE ctid = ANY (batch);
    FOR i IN 1 .. cardinality(this.names) LOOP
        PERFORM charge(now, this.names[i], this.costs[i], cardinality(ids), cardinality(ids));
    END LOOP;
    IF fair THEN
        PERFORM take_turns(this.lane, this.key, step, cardinality(ids));
    END IF;
    PERFORM go_on(now, this);
END
$$;

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
            JOIN waiting w ON w.line = k.line AND w.due = k.due AND w.sequence = k.sequence
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
