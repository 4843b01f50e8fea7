-- Lines of lanes: core/lines.py, which is the oracle, under the same names; the comparison tests
-- hold this to it. Whoever calls these holds the limits (lock_limits), but for readers. A line is
-- taken out of its stage and put into the next in one step, `put`: where the oracle lifts it first,
-- this does not count the line itself. A lane is named by its id in `lined_lane` here.

-- names_in(limits): the names of the limits that a job names, in order.
CREATE FUNCTION names_in(limits text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN limits IS NULL THEN '{}'
                ELSE ARRAY(SELECT json_object_keys(limits::json)) END;
END
$$;

-- costs_in(limits): what the job costs at each of them.
CREATE FUNCTION costs_in(limits text) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN limits IS NULL THEN '{}'
                ELSE ARRAY(SELECT e.value::bigint FROM json_each_text(limits::json) AS e) END;
END
$$;

-- line_of(lane, key, limits): the id of the line of such a job, which is made if it has no jobs yet.
CREATE FUNCTION line_of(in_lane text, in_key text, limits text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    known_names text[] := names_in(limits);
    known_key text := coalesce(in_key, '');
    known_name text := array_to_string(known_key || known_names, chr(31));
    lane_id bigint;
    line_id bigint;
BEGIN
    SELECT n.id INTO lane_id FROM lined_lane n WHERE n.lane = in_lane;
    IF FOUND THEN
        SELECT l.id INTO line_id FROM line l
        WHERE l.lane = lane_id AND l.name = known_name
          AND hashtextextended(l.name, 0) = hashtextextended(known_name COLLATE "C", 0);
        IF FOUND THEN
            RETURN line_id;
        END IF;
        UPDATE lined_lane SET lines = lines + 1, keyed = keyed + (known_key <> '')::integer
        WHERE id = lane_id;
    ELSE
        INSERT INTO lined_lane (id, lines, keyed, lane)
        VALUES (nextval('counter'), 1, (known_key <> '')::integer, in_lane)
        RETURNING id INTO lane_id;
    END IF;
    INSERT INTO line (id, lane, due, sequence, stage, key, name, names, costs)
    VALUES (nextval('counter'), lane_id, 9223372036854775807, 9223372036854775807, 'new',
            known_key, known_name, known_names, '{}')
    RETURNING id INTO line_id;
    RETURN line_id;
END
$$;

-- stand(now, id): a pending job joins its line.
CREATE FUNCTION stand(now bigint, in_id text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    new job;
    line_id bigint;
BEGIN
    SELECT j.* INTO new FROM job j WHERE j.id = in_id;
    line_id := line_of(lane_name(new.queue, new.scope, new.lane_priority), new.fairness_key,
                       new.limits);
    INSERT INTO waiting (due, sequence, expires_at, line, held, delayed, lane, id, limits)
    VALUES (new.due, new.sequence, expires(new), line_id, true, new.delayed,
            lane_name(new.queue, new.scope, new.lane_priority), in_id, new.limits);
    PERFORM joined(now, line_id, new.due, new.sequence, new.limits);
END
$$;

-- stand_all(now, ids): the same for new jobs, in the order given: of those of a line only the first
-- matters to it.
CREATE FUNCTION stand_all(now bigint, ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    standing record;
    line_id bigint;
BEGIN
    FOR standing IN
        SELECT lane_name(j.queue, j.scope, j.lane_priority) AS lane, j.limits IS NULL AS unlimited,
               CASE WHEN j.limits IS NOT NULL THEN j.fairness_key END AS key,
               CASE WHEN j.limits IS NOT NULL
                    THEN array_to_string(names_in(j.limits), chr(31)) END AS names,
               array_agg(j.id ORDER BY j.due, j.sequence) AS ids,
               array_agg(j.fairness_key ORDER BY j.due, j.sequence) AS keys,
               array_agg(j.due ORDER BY j.due, j.sequence) AS dues,
               array_agg(j.sequence ORDER BY j.due, j.sequence) AS sequences,
               array_agg(expires(j) ORDER BY j.due, j.sequence) AS expires,
               array_agg(j.delayed ORDER BY j.due, j.sequence) AS delayed
        FROM unnest(stand_all.ids) AS u (id)
        CROSS JOIN LATERAL (SELECT h.* FROM job h WHERE h.id = u.id LIMIT 1) j
        GROUP BY 1, 2, 3, 4 ORDER BY min(j.sequence)
    LOOP
        IF cardinality(standing.ids) = 1 THEN
            PERFORM stand(now, standing.ids[1]);
            CONTINUE;
        ELSIF standing.unlimited THEN
            PERFORM stand_by_key(now, standing.lane, standing.ids, standing.keys, standing.dues,
                                 standing.sequences, standing.expires, standing.delayed);
            CONTINUE;
        END IF;
        line_id := line_of(standing.lane, standing.key,
                           (SELECT j.limits FROM job j WHERE j.id = standing.ids[1]));
        INSERT INTO waiting (due, sequence, expires_at, line, held, delayed, lane, id, limits)
        SELECT j.due, j.sequence, expires(j), line_id, true, j.delayed, standing.lane, j.id,
               j.limits
        FROM unnest(standing.ids) AS u (id)
        CROSS JOIN LATERAL (SELECT h.* FROM job h WHERE h.id = u.id LIMIT 1) j;
        PERFORM joined(now, line_id, j.due, j.sequence, j.limits)
        FROM job j WHERE j.id = standing.ids[1];
    END LOOP;
END
$$;

-- stand_by_key(now, lane, ids, keys, dues, sequences, expires, delayed): the same for jobs of one
-- lane that name no limits, in few statements: their lines wait for nothing.
CREATE FUNCTION stand_by_key(
    now bigint, in_lane text, ids text[], keys text[], dues bigint[], sequences bigint[],
    expires bigint[], all_delayed boolean[]
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    here lined_lane;
    made record;              -- of the lines that are new
BEGIN
    SELECT n.* INTO here FROM lined_lane n WHERE n.lane = in_lane;
    IF NOT FOUND THEN
        INSERT INTO lined_lane (id, lane) VALUES (nextval('counter'), in_lane)
        RETURNING * INTO here;
    END IF;
    WITH members AS (
        SELECT u.*, row_number() OVER (PARTITION BY u.key COLLATE "C" ORDER BY u.due, u.sequence)
                    AS place
        FROM unnest(stand_by_key.ids, keys, dues, sequences, stand_by_key.expires, all_delayed)
             AS u (id, key, due, sequence, expires_at, delayed)
    ), firsts AS (  -- of each key the first job stands for all
        SELECT m.*, m.place = 1 AND l.id IS NULL AS is_new,
               (m.due, m.sequence) < (l.due, l.sequence) AS is_sooner,
               CASE WHEN m.place = 1 THEN coalesce(l.id, nextval('counter')) END AS own_line
        FROM members m
        LEFT JOIN LATERAL (
            SELECT l.id, l.due, l.sequence FROM line l
            WHERE m.place = 1 AND l.lane = here.id AND l.name = m.key
              AND hashtextextended(l.name, 0) = hashtextextended(m.key COLLATE "C", 0)
            LIMIT 1
        ) l ON true
    ), known AS MATERIALIZED (
        SELECT f.*, max(f.own_line) OVER (PARTITION BY f.key COLLATE "C") AS line FROM firsts f
    ), lines AS (
        INSERT INTO line (id, lane, due, sequence, stage, key, name, names, costs)
        SELECT k.line, here.id, k.due, k.sequence,
               CASE WHEN k.due > now THEN 'later' ELSE 'ready' END, k.key, k.key, '{}', '{}'
        FROM known k WHERE k.is_new
    ), stood AS (
        INSERT INTO waiting (due, sequence, expires_at, line, held, delayed, lane, id)
        SELECT k.due, k.sequence, k.expires_at, k.line, true, k.delayed, in_lane, k.id
        FROM known k
    ), turns AS (
        INSERT INTO fairness_key AS k (lane, key, turn, due, sequence, line)
        SELECT here.id, n.key, here.turn, n.due, n.sequence, n.line
        FROM known n WHERE n.is_new AND n.due <= now
        ON CONFLICT (lane, key) DO UPDATE SET
            turn = CASE WHEN k.due IS NULL THEN greatest(k.turn, excluded.turn) ELSE k.turn END,
            line = CASE WHEN (k.due, k.sequence) < (excluded.due, excluded.sequence) THEN k.line
                        ELSE excluded.line END,
            due = least(k.due, excluded.due),
            sequence = CASE WHEN (k.due, k.sequence) < (excluded.due, excluded.sequence)
                            THEN k.sequence ELSE excluded.sequence END
    )
    SELECT count(*) FILTER (WHERE k.is_new) AS many,
           count(*) FILTER (WHERE k.is_new AND k.due <= now) AS ready,
           min(k.due) FILTER (WHERE k.is_new AND k.due <= now) AS due,
           min(k.due) FILTER (WHERE k.is_new AND k.due > now) AS later,
           array_agg(k.id) FILTER (WHERE k.is_sooner) AS sooner
    INTO made FROM known k;
    UPDATE lined_lane SET lines = lines + made.many, keyed = keyed + made.many
    WHERE id = here.id AND made.many > 0;
    IF made.sooner IS NOT NULL THEN
        PERFORM joined(now, w.line, w.due, w.sequence, NULL)
        FROM job j JOIN waiting w ON row_of(w, j) WHERE j.id = ANY (made.sooner);
    END IF;
    IF made.many > 0 AND any_asleep() THEN
        PERFORM wake_lane(now, in_lane, made.due, made.ready),
                wake_lane(now, in_lane, made.later, made.many - made.ready);
    END IF;
END
$$;

-- let_in(now): jobs of callers' own transactions join their lines.
CREATE FUNCTION let_in(now bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    new record;
    line_id bigint;
BEGIN
    FOR new IN
        SELECT w.ctid AS at, w.id, w.lane, w.due, w.sequence, w.limits FROM waiting w
        WHERE w.line = 0 ORDER BY w.sequence LIMIT 1000
    LOOP
        line_id := line_of(new.lane, (SELECT j.fairness_key FROM job j WHERE j.id = new.id),
                           new.limits);
        UPDATE waiting SET line = line_id WHERE ctid = new.at;
        PERFORM joined(now, line_id, new.due, new.sequence, new.limits);
    END LOOP;
END
$$;

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
