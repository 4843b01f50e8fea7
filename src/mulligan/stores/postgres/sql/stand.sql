-- How pending jobs join the lines of their lanes: each, or those of a batch together, of which only
-- the first of each line matters to it. What a line does then is `joined` of lines.sql. Whoever
-- calls these holds the limits (lock_limits).

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
                    AS ordinal
        FROM unnest(stand_by_key.ids, keys, dues, sequences, stand_by_key.expires, all_delayed)
             AS u (id, key, due, sequence, expires_at, delayed)
    ), firsts AS (  -- of each key the first job stands for all
        SELECT m.*, m.ordinal = 1 AND l.id IS NULL AS is_new,
               (m.due, m.sequence) < (l.due, l.sequence) AS is_sooner,
               CASE WHEN m.ordinal = 1 THEN coalesce(l.id, nextval('counter')) END AS own_line,
               k.at AS key_at
        FROM members m
        LEFT JOIN LATERAL (
            SELECT l.id, l.due, l.sequence FROM line l
            WHERE m.ordinal = 1 AND l.lane = here.id AND l.name = m.key
              AND hashtextextended(l.name, 0) = hashtextextended(m.key COLLATE "C", 0)
            LIMIT 1
        ) l ON true
        LEFT JOIN LATERAL (
            SELECT k.ctid AS at FROM fairness_key k
            WHERE m.ordinal = 1 AND l.id IS NULL AND k.lane = here.id AND k.key = m.key
            LIMIT 1
        ) k ON true
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
    ), begun AS (  -- ON CONFLICT would take twice as long, and nobody else changes keys
        INSERT INTO fairness_key (lane, key, turn, due, sequence, line)
        SELECT here.id, n.key, here.turn, n.due, n.sequence, n.line
        FROM known n WHERE n.is_new AND n.due <= now AND n.key_at IS NULL
    ), renewed AS (
        UPDATE fairness_key k SET
            turn = CASE WHEN k.due IS NULL THEN greatest(k.turn, here.turn) ELSE k.turn END,
            line = CASE WHEN (k.due, k.sequence) < (n.due, n.sequence) THEN k.line
                        ELSE n.line END,
            due = least(k.due, n.due),
            sequence = CASE WHEN (k.due, k.sequence) < (n.due, n.sequence) THEN k.sequence
                            ELSE n.sequence END
        FROM known n WHERE n.is_new AND n.due <= now AND k.ctid = n.key_at
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
