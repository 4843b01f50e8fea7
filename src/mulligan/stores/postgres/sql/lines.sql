-- Lines of lanes: core/lines.py, which is the oracle, under the same names; the comparison tests
-- hold this to it. Whoever calls these holds the limits (lock_limits), but for readers. A line is
-- taken out of its stage and put into the next in one step, `put`: where the oracle lifts it first,
-- this does not count the line itself. A lane is named by its id in `lined_lane` here.

-- -- a line and its first job --------------------------------------------------------------------

-- joined(now, line, due, sequence, limits): such a job has joined the line.
CREATE FUNCTION joined(now bigint, line_id bigint, in_due bigint, in_sequence bigint, limits text)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    this line;
BEGIN
    SELECT l.* INTO this FROM line l
    WHERE l.id = line_id AND (in_due, in_sequence) < (l.due, l.sequence);
    IF FOUND THEN
        PERFORM enter(now, this, in_due, in_sequence, costs_in(limits));
    END IF;
END
$$;

-- left_line(now, line, sequence): a job has left the line without starting; if it was the first,
-- another is.
CREATE FUNCTION left_line(now bigint, line_id bigint, in_sequence bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    this line;
BEGIN
    SELECT l.* INTO this FROM line l WHERE l.id = line_id AND l.sequence = in_sequence;
    IF FOUND THEN
        PERFORM go_on(now, this);
    END IF;
END
$$;

-- go_on(now, line): the line's first job is gone: the next is first, and other lines may have room.
CREATE FUNCTION go_on(now bigint, this line) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    first record;
BEGIN
    SELECT w.due, w.sequence, w.limits INTO first FROM waiting w WHERE w.line = this.id
    ORDER BY w.due, w.sequence LIMIT 1;
    IF FOUND THEN
        PERFORM enter(now, this, first.due, first.sequence, costs_in(first.limits));
        PERFORM look_at_all(now, this);
    ELSE
        PERFORM drop_line(this);
        PERFORM renew_key(this);
        PERFORM look_at_all(now, this);
        DELETE FROM lined_lane WHERE id = this.lane AND lines = 0;
    END IF;
END
$$;

-- drop_line(line): forget a line that has no jobs any more; the last one with a key ends the turns.
CREATE FUNCTION drop_line(this line) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    is_last boolean;
BEGIN
    DELETE FROM line WHERE id = this.id;
    UPDATE lined_lane SET lines = lines - 1, keyed = keyed - (this.key <> '')::integer
    WHERE id = this.lane
    RETURNING this.key <> '' AND keyed = 0 INTO is_last;
    IF is_last THEN
        PERFORM end_turns(this.lane);
    END IF;
END
$$;

-- end_turns(lane): no line of the lane has a key any more.
CREATE FUNCTION end_turns(lane_id bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lined_lane SET turn = 0 WHERE id = lane_id;
    DELETE FROM fairness_key WHERE lane = lane_id AND (key <> '' OR due IS NULL);
    UPDATE fairness_key SET turn = 0 WHERE lane = lane_id;
END
$$;

-- enter(now, line, due, sequence, costs): the line has a new first job: see in which stage it is
-- with that.
CREATE FUNCTION enter(
    now bigint, this line, in_due bigint, in_sequence bigint, in_costs bigint[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    at text;
BEGIN
    this.due := in_due;
    this.sequence := in_sequence;
    this.costs := in_costs;
    this.turn := -1;
    IF in_due > now THEN
        this.woken := wake_line(now, this.lane, in_due);
        PERFORM put(this, 'later', NULL);
        RETURN;
    END IF;
    FOREACH at IN ARRAY this.names LOOP
        IF EXISTS (SELECT FROM line l
                   WHERE l.waits_for = at AND l.lane = this.lane AND l.id <> this.id) THEN
            PERFORM wait(now, this, at);
            RETURN;
        END IF;
    END LOOP;
    PERFORM make_ready(now, this);
END
$$;

-- put(line, stage, at): the line is in this stage now.
CREATE FUNCTION put(this line, in_stage text, at text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE line l SET due = this.due, sequence = this.sequence, costs = this.costs,
                      turn = this.turn, stage = in_stage, waits_for = at, woken = this.woken
    WHERE l.id = this.id;
    PERFORM renew_key(this);
END
$$;

-- renew_key(line): see which ready line of its key is first now; a key without any may have lost
-- its turn.
CREATE FUNCTION renew_key(this line) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fairness_key AS k (lane, key, turn, due, sequence, line)
    SELECT this.lane, this.key, (SELECT n.turn FROM lined_lane n WHERE n.id = this.lane),
           l.due, l.sequence, l.line
    FROM first_ready(this.lane, this.key, NULL) l WHERE l.line IS NOT NULL
    ON CONFLICT (lane, key) DO UPDATE SET
        turn = CASE WHEN k.due IS NULL THEN greatest(k.turn, excluded.turn) ELSE k.turn END,
        due = excluded.due, sequence = excluded.sequence, line = excluded.line;
    IF NOT FOUND THEN
        DELETE FROM fairness_key k
        WHERE k.lane = this.lane AND k.key = this.key
          AND k.turn <= (SELECT n.turn FROM lined_lane n WHERE n.id = this.lane);
        IF NOT FOUND THEN
            UPDATE fairness_key k SET due = NULL, sequence = NULL, line = NULL
            WHERE k.lane = this.lane AND k.key = this.key AND k.due IS NOT NULL;
        END IF;
    END IF;
END
$$;

-- first_ready(lane, key, other): of the ready lines of the key the first, but for the other.
CREATE FUNCTION first_ready(
    lane_id bigint, in_key text, other bigint, OUT line bigint, OUT due bigint, OUT sequence bigint
)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT l.id, l.due, l.sequence INTO line, due, sequence
    FROM (
        SELECT l.id, l.due, l.sequence FROM line l
        WHERE l.lane = lane_id AND l.name = in_key AND l.stage = 'ready' AND l.names = '{}'
          AND hashtextextended(l.name, 0) = hashtextextended(in_key COLLATE "C", 0)
        UNION ALL
        (SELECT l.id, l.due, l.sequence FROM line l
         WHERE l.lane = lane_id AND l.key = in_key AND l.stage = 'ready' AND l.names <> '{}'
         ORDER BY l.due, l.sequence LIMIT 2)
    ) l
    WHERE l.id IS DISTINCT FROM other ORDER BY l.due, l.sequence LIMIT 1;
END
$$;

-- make_ready(now, line): the line may be claimed in its turn.
CREATE FUNCTION make_ready(now bigint, this line) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    this.woken := wake_line(now, this.lane, this.due);
    PERFORM put(this, 'ready', NULL);
END
$$;

-- wake_line(now, lane, due): wake a sleeper for a job that could start then; whether one was.
CREATE FUNCTION wake_line(now bigint, lane_id bigint, in_due bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN any_asleep() AND wake_lane(
        now, (SELECT n.lane FROM lined_lane n WHERE n.id = lane_id), in_due, 1) > 0;
END
$$;

-- wait(now, line, name): the line waits at the limit, in order.
CREATE FUNCTION wait(now bigint, this line, name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF this.turn = -1 THEN
        this.turn := key_turn(this.lane, this.key);
    END IF;
    this.woken := false;
    PERFORM put(this, 'waiting', name);
    PERFORM look_at(now, name, this.lane);
END
$$;

-- key_turn(lane, key): the turn of the key, or the lane's present one if that is later.
CREATE FUNCTION key_turn(lane_id bigint, in_key text) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN greatest((SELECT n.turn FROM lined_lane n WHERE n.id = lane_id),
                    (SELECT k.turn FROM fairness_key k WHERE k.lane = lane_id AND k.key = in_key));
END
$$;

-- -- limits --------------------------------------------------------------------------------------

-- look_at(now, name, lane): if the limit has room for the first line that waits there, it is ready;
-- else see when. Result: whether one is ready now.
CREATE FUNCTION look_at(now bigint, in_name text, lane_id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    first line;
    at bigint;
    woken boolean;
BEGIN
    SELECT l.* INTO first FROM line l WHERE l.waits_for = in_name AND l.lane = lane_id
    ORDER BY l.turn, l.due, l.sequence LIMIT 1;
    IF FOUND THEN
        at := room_at(now, in_name, first.costs[array_position(first.names, in_name)]);
        IF at > now AND at < 9223372036854775807 THEN
            woken := wake_line(now, lane_id, at);
            INSERT INTO alarm AS a (lane, at, woken, name) VALUES (lane_id, at, woken, in_name)
            ON CONFLICT (lane, name) DO UPDATE SET at = excluded.at, woken = excluded.woken;
            RETURN false;
        END IF;
    END IF;
    DELETE FROM alarm a WHERE a.lane = lane_id AND a.name = in_name;
    IF at <= now THEN
        PERFORM make_ready(now, first);
        RETURN true;
    END IF;
    RETURN false;
END
$$;

-- look_at_all(now, line): look at each limit of a line that no longer stands there.
CREATE FUNCTION look_at_all(now bigint, this line) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    each text;
BEGIN
    FOREACH each IN ARRAY this.names LOOP
        PERFORM look_at(now, each, this.lane);
    END LOOP;
END
$$;

-- opened(now, name, times): the limit may have more room than before: look for every lane that
-- waits there, so often.
CREATE FUNCTION opened(now bigint, in_name text, times bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    lane_id bigint := 0;
BEGIN
    LOOP  -- from one lane to the next, not through all lines
        SELECT l.lane INTO lane_id FROM line l WHERE l.waits_for = in_name AND l.lane > lane_id
        ORDER BY l.lane LIMIT 1;
        EXIT WHEN NOT FOUND;
        FOR i IN 1 .. greatest(1, times) LOOP
            EXIT WHEN NOT look_at(now, in_name, lane_id);
        END LOOP;
    END LOOP;
END
$$;

-- -- the claim -----------------------------------------------------------------------------------

-- advance(now, lane): bring the lane's lines up to the present: what fell due, and limits that have
-- room again.
CREATE FUNCTION advance(now bigint, lane_id bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    this line;
    name text;
BEGIN
    LOOP
        SELECT l.* INTO this FROM line l WHERE l.lane = lane_id AND l.stage = 'later'
        ORDER BY l.due, l.sequence LIMIT 1;
        EXIT WHEN NOT FOUND OR this.due > now;
        PERFORM enter(now, this, this.due, this.sequence, this.costs);
    END LOOP;
    LOOP
        SELECT a.name INTO name FROM alarm a WHERE a.lane = lane_id AND a.at <= now
        ORDER BY a.at, a.name LIMIT 1;
        EXIT WHEN NOT FOUND;
        PERFORM look_at(now, name, lane_id);
    END LOOP;
END
$$;

-- next_in_lane(now, lane, first): the line that is next in the lane, with due time and sequence of
-- its first job; or, without a line, those of the lane's own `first` job, or when there may be one.
CREATE FUNCTION next_in_lane(
    now bigint, lane_id bigint, first_due bigint, first_sequence bigint,
    OUT line bigint, OUT due bigint, OUT sequence bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    key_turn_now bigint;
BEGIN
    SELECT k.turn, k.line, k.due, k.sequence INTO key_turn_now, line, due, sequence
    FROM fairness_key k WHERE k.lane = lane_id AND k.due IS NOT NULL
    ORDER BY k.turn, k.due, k.sequence LIMIT 1;
    IF NOT FOUND THEN
        due := first_due;
        sequence := first_sequence;
        IF first_due IS NULL OR first_due > now THEN
            due := least(first_due, next_at(lane_id));
            sequence := CASE WHEN due = first_due THEN first_sequence WHEN due IS NULL THEN NULL
                             ELSE 0 END;
        END IF;
    ELSIF first_due <= now AND NOT (key_turn_now, due, sequence)
          < (key_turn(lane_id, ''), first_due, first_sequence) THEN
        line := NULL;
        due := first_due;
        sequence := first_sequence;
    END IF;
END
$$;

-- next_at(lane): when a line of the lane could be ready by itself; NULL if none could.
CREATE FUNCTION next_at(lane_id bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN least((SELECT min(l.due) FROM line l WHERE l.lane = lane_id AND l.stage = 'later'),
                 (SELECT min(a.at) FROM alarm a WHERE a.lane = lane_id));
END
$$;

-- line_heads(lanes): when a job in a line of each of these lanes could start, of those where one
-- could by itself, and whether a sleeper was woken for it.
CREATE FUNCTION line_heads(in_lanes text[]) RETURNS TABLE (lane text, due bigint, woken boolean)
LANGUAGE sql STABLE ROWS 10 AS $$
    SELECT n.lane, h.due, h.woken
    FROM lined_lane n
    CROSS JOIN LATERAL (
        SELECT e.due, e.woken FROM (
            (SELECT 1 AS stage, k.due, l.woken FROM fairness_key k JOIN line l ON l.id = k.line
             WHERE k.lane = n.id AND k.due IS NOT NULL
             ORDER BY k.turn, k.due, k.sequence LIMIT 1)
            UNION ALL
            (SELECT 2, l.due, l.woken FROM line l WHERE l.lane = n.id AND l.stage = 'later'
             ORDER BY l.due, l.sequence LIMIT 1)
            UNION ALL
            (SELECT 2, a.at, a.woken FROM alarm a WHERE a.lane = n.id ORDER BY a.at LIMIT 1)
        ) e ORDER BY e.stage, e.due LIMIT 1
    ) h
    WHERE n.lane = ANY (in_lanes)
    UNION ALL
    SELECT w.lane, w.due, false FROM waiting w WHERE w.line = 0 AND w.lane = ANY (in_lanes)
$$;

-- lacks(now, line): the first of its limits that has no room for a ready line, or where an earlier
-- one waits; NULL if none.
CREATE FUNCTION lacks(now bigint, this line) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    my_turn bigint := this.turn;
BEGIN
    IF my_turn = -1 AND this.names <> '{}' THEN
        SELECT k.turn INTO my_turn FROM fairness_key k
        WHERE k.lane = this.lane AND k.key = this.key;
    END IF;
    FOR i IN 1 .. cardinality(this.names) LOOP
        IF EXISTS (
            SELECT FROM line l
            WHERE l.waits_for = this.names[i] AND l.lane = this.lane
              AND (l.turn, l.due, l.sequence) < (my_turn, this.due, this.sequence)
        ) OR room_at(now, this.names[i], this.costs[i]) > now THEN
            RETURN this.names[i];
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

-- set_aside(now, line, name): a ready line waits at a limit that has no room for it.
CREATE FUNCTION set_aside(now bigint, this line, name text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    other text;
BEGIN
    PERFORM wait(now, this, name);
    FOREACH other IN ARRAY array_remove(this.names, name) LOOP
        PERFORM look_at(now, other, this.lane);
    END LOOP;
END
$$;

-- take_turns(lane, key, step, many): so many jobs of the key have started: the last one's turn is
-- the lane's, and the key's next one comes later. step: how far apart its turns are.
CREATE FUNCTION take_turns(lane_id bigint, in_key text, step bigint, many bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    first_turn bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM lined_lane n WHERE n.id = lane_id AND n.keyed > 0) THEN
        RETURN;
    END IF;
    first_turn := key_turn(lane_id, in_key);
    INSERT INTO fairness_key AS k (lane, key, turn)
    VALUES (lane_id, in_key, first_turn + many * step)
    ON CONFLICT (lane, key) DO UPDATE SET turn = excluded.turn;
    UPDATE lined_lane SET turn = first_turn + (many - 1) * step WHERE id = lane_id;
    DELETE FROM fairness_key k
    WHERE k.lane = lane_id AND k.due IS NULL AND k.turn <= first_turn + (many - 1) * step;
END
$$;
