-- What a walk does at lanes of which jobs stand in lines: the claim's part of core/lines.py, which is
-- the oracle, where many jobs that would be taken one by one are taken at once. The limits are locked.

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
