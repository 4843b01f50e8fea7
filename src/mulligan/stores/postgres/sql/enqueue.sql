-- Accepting jobs. They come as `new_jobs`, which has an array for each field of a new job, by the
-- field's name. A field that new jobs may leave out (core/fields.py: OPTIONS) is NULL if all of
-- them do, and NULL in its array where one does; `no_options` is true if all are NULL, but for limits
-- and fairness_key: then all jobs are alike in both, or name no limits and each has a key. Any other
-- but id and body may be of length one if all jobs are alike in it: most batches are of one kind,
-- and an array costs as much to read as a column to write.

-- accept(given, jobs, before): receive jobs as an operation of its own.
-- Where jobs join lines they are committed first, too: nobody waits for the disk with the limits
-- locked. (A procedure that commits may have no search path of its own. Hence @schema@.)
CREATE PROCEDURE accept(given bigint, jobs new_jobs, INOUT before text[])
LANGUAGE plpgsql
AS $accept$
DECLARE
    received record := @schema@.receive(given, jobs);
BEGIN
    before := received.before;
    IF received.soon THEN
        CALL @schema@.commit_first();
    END IF;
END
$accept$;

-- commit_first(): commit what was stored, and wait for the disk afterwards.
-- Whoever was woken learns of it when the jobs are committed, and need not wait until they are on
-- the disk: they are committed without, so that the claim is under way while the disk is waited for
-- in a second transaction, which writes an empty message to the log for no other reason. The log
-- keeps the order of commits, so that a claim which is on the disk has the job there, too.
CREATE PROCEDURE commit_first() LANGUAGE plpgsql
AS $$
BEGIN
    SET LOCAL synchronous_commit = off;
    COMMIT;
    PERFORM pg_catalog.pg_logical_emit_message(true, 'mulligan', ''::text);
END
$$;

-- accept_one(given, id, body, queue, task, region, priority, delay, before): as `accept`, for one job
-- that leaves out all that may be left out. Most jobs come so, and to carry them through what serves
-- many of every kind takes longer than to store them.
CREATE PROCEDURE accept_one(
    given bigint, in_id text, in_body bytea, in_queue text, in_task text, in_region text,
    in_priority smallint, in_delay bigint, INOUT before text[]
)
LANGUAGE plpgsql
AS $accept$
DECLARE
    in_now bigint := @schema@.instant(given);
    in_number bigint := pg_catalog.nextval($counter$@schema@.counter$counter$);
    in_lane text := @schema@.lane_name(in_queue, in_region, in_priority);
    in_woken boolean := EXISTS (SELECT FROM @schema@.sleeper WHERE asleep)
                        AND @schema@.wake_one(in_now, in_lane, in_now + in_delay);
BEGIN
    INSERT INTO @schema@.job (number, sequence, due, created_at, token, priority, lane_priority,
                              delayed, id, queue, scope, region, task, body)
    VALUES (in_number, in_number, in_now + in_delay, in_now, @schema@.first_token(in_number),
            in_priority, in_priority, in_delay > 0, in_id, in_queue, in_region, in_region, in_task,
            in_body)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO @schema@.waiting (due, sequence, woken, delayed, lane, id)
        VALUES (in_now + in_delay, in_number, in_woken, in_delay > 0, in_lane, in_id);
    ELSE
        before := ARRAY[in_id];
        -- Who stored it may not have waited for the disk yet: this does.
        PERFORM pg_catalog.pg_logical_emit_message(true, 'mulligan', ''::text);
    END IF;
    IF in_woken THEN
        CALL @schema@.commit_first();
    END IF;
END
$accept$;

-- wake_one(now, lane, due): as `wake_lane`, for who has no search path. Result: whether anybody was
-- woken.
CREATE FUNCTION wake_one(now bigint, in_lane text, in_due bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
BEGIN
    RETURN wake_lane(now, in_lane, in_due, 1) > 0;
END
$$;

-- receive(given, jobs): wake sleepers and store.
-- Result: what `add` said, and whether others may go on soon: somebody was woken, or waits for the
-- limits. For a job that turns out to be there already somebody was woken in vain: harmless.
CREATE FUNCTION receive(given bigint, jobs new_jobs, OUT before text[], OUT soon boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    now bigint := instant(given);
    woken boolean[] := wake_new(now, cardinality(jobs.id), jobs.queue, jobs.region, jobs.priority,
                                jobs.delay, jobs.awaits, NULL, jobs.limits, jobs.fairness_key);
BEGIN
    before := add(now, woken, NULL, NULL, jobs, false);
    soon := woken IS NOT NULL OR coalesce(jobs.limits, jobs.fairness_key) IS NOT NULL;
END
$$;

-- enqueue_in(given, jobs): store in the caller's own transaction, which may commit much later:
-- sleepers are woken then, by a deferred trigger, and only if it commits. The limits are not locked
-- for so long: the next claim lets jobs join their lines. Result: as of `add`.
CREATE FUNCTION enqueue_in(given bigint, jobs new_jobs) RETURNS text[]
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    now bigint := instant(given);
    before text[] := add(now, NULL, NULL, NULL, jobs, true);
BEGIN
    INSERT INTO incoming (at, many, queues, regions, priorities, delays, awaits, before)
    VALUES (now, cardinality(jobs.id), jobs.queue, jobs.region, jobs.priority, jobs.delay,
            jobs.awaits, before);
    RETURN before;
END
$$;

CREATE FUNCTION come_in() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    BEGIN
        PERFORM wake_new(NEW.at, NEW.many, NEW.queues, NEW.regions, NEW.priorities, NEW.delays,
                         NEW.awaits, NEW.before, NULL, NULL);
    EXCEPTION WHEN serialization_failure THEN
        -- A transaction of REPEATABLE READ is not to fail for who fell asleep since it began: that
        -- sleeper looks by itself within a second.
        NULL;
    END;
    DELETE FROM incoming WHERE id = NEW.id;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER come_in AFTER INSERT ON incoming DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION come_in();

-- add(now, woken, numbers, left_out, jobs, lets_in): store jobs, in order.
-- woken: for each job whether a sleeper was woken for it, NULL if for none. numbers: that of each
-- among all jobs, or NULL for the next ones. left_out: not NULL for each job that is not to be
-- stored, or NULL if there is none. lets_in: those that join lines are left for the next claim to
-- let in.
-- Result: NULL if every job is new; otherwise for each job the id of the one that was there
-- before it, or NULL where it is new.
-- A job is there before if it has the same id, or the same unique key in the same queue and has not
-- ended. Nearly always all are new: they are inserted together, and only when that fails is
-- each looked at for itself.
CREATE FUNCTION add(
    now bigint, woken boolean[], numbers bigint[], left_out text[], jobs new_jobs, lets_in boolean
) RETURNS text[]
LANGUAGE plpgsql
AS $$
DECLARE
    before text[];
    lined text[];             -- those that join lines
    new record;
    number bigint;
BEGIN
    IF jobs.no_options AND numbers IS NULL AND left_out IS NULL AND cardinality(jobs.queue) = 1
       AND cardinality(jobs.task) = 1 AND cardinality(jobs.region) = 1
       AND cardinality(jobs.priority) = 1 AND cardinality(jobs.delay) = 1 THEN
        IF coalesce(jobs.limits, jobs.fairness_key) IS NULL THEN
            PERFORM add_alike(now, woken, jobs.id, jobs.body, jobs.queue[1], jobs.task[1],
                              jobs.region[1], jobs.priority[1], jobs.delay[1]);
        ELSIF jobs.fairness_key[1] <> ANY (jobs.fairness_key) THEN
            PERFORM add_by_key(now, jobs.id, jobs.body, jobs.queue[1], jobs.task[1],
                               jobs.region[1], jobs.priority[1], jobs.delay[1], jobs.fairness_key,
                               lets_in);
        ELSE
            PERFORM add_to_line(now, jobs.id, jobs.body, jobs.queue[1], jobs.task[1],
                                jobs.region[1], jobs.priority[1], jobs.delay[1], jobs.limits[1],
                                jobs.fairness_key[1], lets_in);
        END IF;
        RETURN NULL;
    END IF;
    WITH new AS MATERIALIZED (
        SELECT coalesce(numbers[e.ord], nextval('counter')) AS number,
               coalesce(woken[e.ord], false) AS woken, e.*
        FROM each_of(jobs) e WHERE left_out[e.ord] IS NULL
    ), stored AS (
        INSERT INTO job (number, sequence, due, created_at, token, expires_at, debounce_until,
                         unique_until, keep, awaits, return_exceptions, gather_index, priority,
                         lane_priority, delayed, id, queue, scope, region, task, unique_key,
                         unique_in, open_key, limits, fairness_key, gather, body)
        SELECT n.number, n.number, now + n.delay, now, first_token(n.number), now + n.expires,
               now + n.debounce_max, now + n.unique_for, n.keep, n.awaits, n.return_exceptions,
               n.gather_index, n.priority, n.priority, n.delay > 0, n.id, n.queue, n.region,
               n.region, n.task, n.unique_key, n.unique_in, n.unique_key, n.limits, n.fairness_key,
               n.gather, n.body
        FROM new n
    ), standing AS (
        INSERT INTO waiting (due, sequence, expires_at, line, held, woken, delayed, lane, id,
                             limits)
        SELECT now + n.delay, n.number, now + n.expires, CASE WHEN n.lined THEN 0 END,
               n.lined OR n.awaits > 0, n.woken, n.delay > 0,
               lane_name(n.queue, n.region, n.priority), n.id, CASE WHEN n.lined THEN n.limits END
        FROM new n WHERE lets_in OR NOT n.lined
    )
    SELECT array_agg(n.id ORDER BY n.number) INTO lined
    FROM new n WHERE n.lined AND NOT lets_in;
    IF lined IS NOT NULL THEN
        PERFORM lock_limits();
        PERFORM stand_all(now, lined);
    END IF;
    RETURN NULL;
EXCEPTION WHEN unique_violation THEN
    PERFORM lock_debounced(jobs);
    FOR new IN SELECT * FROM each_of(jobs) e WHERE left_out[e.ord] IS NULL LOOP
        number := coalesce(numbers[new.ord], nextval('counter'));
        LOOP
            -- Stored first, and what was there looked up only then: in REPEATABLE READ a job that
            -- came or changed since the transaction began makes this fail, and is not overlooked.
            IF new.unique_key IS NOT NULL THEN
                PERFORM free_lent_key(now, coalesce(new.unique_in, new.queue), new.unique_key);
            END IF;
            INSERT INTO job (number, sequence, due, created_at, token, expires_at, debounce_until,
                             unique_until, keep, awaits, return_exceptions, gather_index, priority,
                             lane_priority, delayed, id, queue, scope, region, task, unique_key,
                             unique_in, open_key, limits, fairness_key, gather, body)
            VALUES (number, number, now + new.delay, now, first_token(number), now + new.expires,
                    now + new.debounce_max, now + new.unique_for, new.keep, new.awaits,
                    new.return_exceptions, new.gather_index, new.priority, new.priority,
                    new.delay > 0, new.id, new.queue, new.region, new.region, new.task,
                    new.unique_key, new.unique_in, new.unique_key, new.limits, new.fairness_key,
                    new.gather, new.body)
            ON CONFLICT DO NOTHING;
            IF FOUND THEN
                IF new.lined AND lets_in THEN
                    INSERT INTO waiting (due, sequence, expires_at, line, held, delayed, lane, id,
                                         limits)
                    VALUES (now + new.delay, number, now + new.expires, 0, true, new.delay > 0,
                            lane_name(new.queue, new.region, new.priority), new.id, new.limits);
                ELSE
                    PERFORM join_lane(now, new.id, coalesce(woken[new.ord], false));
                END IF;
                before[new.ord] := NULL;
                EXIT;
            END IF;
            before[new.ord] := there_before(new.id, coalesce(new.unique_in, new.queue),
                                            new.unique_key);
            EXIT WHEN before[new.ord] IS NOT NULL
                  AND (new.debounce_max IS NULL OR before[new.ord] = new.id
                       OR coalesce(new.debounces, before[new.ord]) <> before[new.ord]
                       OR debounce(now, before[new.ord], new.task, new.body, new.delay, number));
            -- it starts, or ends, at this moment
        END LOOP;
    END LOOP;
    RETURN before;
END
$$;

-- each_of(jobs): the jobs as rows, in order, with what all have in common and the defaults of what
-- they leave out. One that awaits others has no delay.
CREATE FUNCTION each_of(jobs new_jobs) RETURNS TABLE (
    ord bigint, id text, queue text, task text, body bytea, region text, priority smallint,
    delay bigint, unique_key text, limits text, fairness_key text, expires bigint,
    unique_in text, awaits integer, gather text, gather_index integer, keep integer,
    debounce_max bigint, debounces text, unique_for bigint, return_exceptions boolean,
    lined boolean
)
LANGUAGE sql IMMUTABLE AS $$
    SELECT u.ord, u.id, coalesce(u.queue, jobs.queue[1]), coalesce(u.task, jobs.task[1]), u.body,
           coalesce(u.region, jobs.region[1]), coalesce(u.priority, jobs.priority[1]),
           CASE WHEN u.awaits > 0 THEN 0 ELSE coalesce(u.delay, jobs.delay[1]) END, u.unique_key,
           u.limits, u.fairness_key, u.expires, u.unique_in,
           coalesce(u.awaits, 0), u.gather, coalesce(u.gather_index, 0), u.keep,
           u.debounce_max, u.debounces, u.unique_for, coalesce(u.return_exceptions, false),
           coalesce(u.limits, u.fairness_key) IS NOT NULL AND coalesce(u.awaits, 0) = 0
    FROM unnest(jobs.id, jobs.queue, jobs.task, jobs.body, jobs.region, jobs.priority, jobs.delay,
                jobs.unique_key, jobs.limits, jobs.fairness_key, jobs.expires, jobs.unique_in,
                jobs.awaits, jobs.gather, jobs.gather_index, jobs.keep,
                jobs.debounce_max, jobs.debounces, jobs.unique_for, jobs.return_exceptions)
      WITH ORDINALITY
      AS u (id, queue, task, body, region, priority, delay, unique_key, limits, fairness_key,
            expires, unique_in, awaits, gather, gather_index, keep, debounce_max, debounces,
            unique_for, return_exceptions, ord)
$$;

-- add_alike(now, woken, ids, bodies, what they have in common): store jobs that differ in id and
-- body alone, and leave out all that may be left out. Most batches are so, and a third of the time
-- of reading, carrying and working out what all have in common for each is saved.
CREATE FUNCTION add_alike(
    now bigint, woken boolean[], ids text[], bodies bytea[], in_queue text, in_task text,
    in_region text, in_priority smallint, in_delay bigint
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    in_due bigint := now + in_delay;
    in_delayed boolean := in_delay > 0;
    in_lane text := lane_name(in_queue, in_region, in_priority);
BEGIN
    WITH new AS MATERIALIZED (
        SELECT nextval('counter') AS number, u.id, u.body, coalesce(u.woken, false) AS woken
        FROM unnest(ids, bodies, woken) AS u (id, body, woken)
    ), stored AS (
        INSERT INTO job (number, sequence, due, created_at, token, priority, lane_priority, delayed,
                         id, queue, scope, region, task, body)
        SELECT n.number, n.number, in_due, now, first_token(n.number), in_priority, in_priority,
               in_delayed, n.id, in_queue, in_region, in_region, in_task, n.body
        FROM new n
    )
    INSERT INTO waiting (due, sequence, woken, delayed, lane, id)
    SELECT in_due, n.number, n.woken, in_delayed, in_lane, n.id
    FROM new n;
END
$$;

-- add_to_line(now, ids, bodies, what they have in common, lets_in): the same for jobs of one line,
-- which name the same limits, at the same costs, and have the same fairness key.
CREATE FUNCTION add_to_line(
    now bigint, ids text[], bodies bytea[], in_queue text, in_task text, in_region text,
    in_priority smallint, in_delay bigint, in_limits text, in_key text, lets_in boolean
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    in_due bigint := now + in_delay;
    in_delayed boolean := in_delay > 0;
    in_lane text := lane_name(in_queue, in_region, in_priority);
    numbers bigint[];
    line_id bigint := 0;
BEGIN
    WITH new AS MATERIALIZED (
        SELECT nextval('counter') AS number, u.id, u.body
        FROM unnest(ids, bodies) AS u (id, body)
    ), stored AS (
        INSERT INTO job (number, sequence, due, created_at, token, priority, lane_priority, delayed,
                         id, queue, scope, region, task, limits, fairness_key, body)
        SELECT n.number, n.number, in_due, now, first_token(n.number), in_priority, in_priority,
               in_delayed, n.id, in_queue, in_region, in_region, in_task, in_limits, in_key, n.body
        FROM new n
    )
    SELECT array_agg(n.number) INTO numbers FROM new n;
    IF NOT lets_in THEN
        PERFORM lock_limits();
        line_id := line_of(in_lane, in_key, in_limits);
    END IF;
    INSERT INTO waiting (due, sequence, line, held, delayed, lane, id, limits)
    SELECT in_due, u.number, line_id, true, in_delayed, in_lane, u.id, in_limits
    FROM unnest(ids, numbers) AS u (id, number);
    IF NOT lets_in THEN
        PERFORM joined(now, line_id, in_due, numbers[1], in_limits);
    END IF;
END
$$;

-- add_by_key(now, ids, bodies, what they have in common, keys, lets_in): the same for jobs that name
-- no limits, each with a fairness key.
CREATE FUNCTION add_by_key(
    now bigint, ids text[], bodies bytea[], in_queue text, in_task text, in_region text,
    in_priority smallint, in_delay bigint, keys text[], lets_in boolean
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    in_due bigint := now + in_delay;
    in_delayed boolean := in_delay > 0;
    in_lane text := lane_name(in_queue, in_region, in_priority);
    many integer[] := ARRAY[cardinality(ids)];
    numbers bigint[];
BEGIN
    WITH new AS MATERIALIZED (
        SELECT nextval('counter') AS number, u.id, u.body, u.key
        FROM unnest(ids, bodies, keys) AS u (id, body, key)
    ), stored AS (
        INSERT INTO job (number, sequence, due, created_at, token, priority, lane_priority, delayed,
                         id, queue, scope, region, task, fairness_key, body)
        SELECT n.number, n.number, in_due, now, first_token(n.number), in_priority, in_priority,
               in_delayed, n.id, in_queue, in_region, in_region, in_task, n.key, n.body
        FROM new n
    )
    SELECT array_agg(n.number) INTO numbers FROM new n;
    IF lets_in THEN
        INSERT INTO waiting (due, sequence, line, held, delayed, lane, id)
        SELECT in_due, u.number, 0, true, in_delayed, in_lane, u.id
        FROM unnest(ids, numbers) AS u (id, number);
    ELSE
        PERFORM lock_limits();
        PERFORM stand_by_key(now, in_lane, ids, keys, array_fill(in_due, many), numbers, NULL,
                             array_fill(in_delayed, many));
    END IF;
END
$$;

-- there_before(id, queue, unique_key): the id of the job that is there before such a one, or NULL.
CREATE FUNCTION there_before(in_id text, in_queue text, in_key text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    first text;
BEGIN
    SELECT j.id INTO first FROM job j WHERE j.id = in_id;
    IF NOT FOUND AND in_key IS NOT NULL THEN
        SELECT j.id INTO first FROM job j
        WHERE coalesce(j.unique_in, j.queue) = in_queue AND j.open_key = in_key;
    END IF;
    RETURN first;
END
$$;

-- holds_key(job, now): whether the job, which had its unique key last, has it still. As in
-- core/unique.py.
CREATE FUNCTION holds_key(j job, now bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN j.status = 'cancelled' THEN false
        WHEN j.ended_at IS NOT NULL THEN coalesce(j.unique_until > now, false)
        ELSE j.debounce_until IS NULL OR (
            j.status = 'pending' AND j.retry_count = 0 AND j.snoozes = 0 AND j.replay = 0)
    END
$$;

-- free_lent_key(now, queue, unique_key): a debounced or throttled job that no longer holds its key
-- gives it up.
CREATE FUNCTION free_lent_key(now bigint, in_queue text, in_key text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE job j SET open_key = NULL
    WHERE coalesce(j.unique_in, j.queue) = in_queue AND j.open_key = in_key
      AND (j.debounce_until IS NOT NULL OR j.unique_until IS NOT NULL)
      AND NOT holds_key(j, now);
END
$$;

-- lock_debounced(jobs): those who debounce the same keys do so one after the other.
CREATE FUNCTION lock_debounced(jobs new_jobs) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF jobs.debounce_max IS NOT NULL THEN
        PERFORM FROM debounce_lock l WHERE l.slot IN (
            SELECT abs(hashtext(e.queue || chr(31) || e.unique_key) % 256)
            FROM each_of(jobs) e WHERE e.debounce_max IS NOT NULL AND e.unique_key IS NOT NULL)
        ORDER BY l.slot FOR UPDATE;
    END IF;
END
$$;

-- debounce(now, id, task, body, delay, sequence): give a debounced job that waits to start the call
-- of a later one, and put it off again. One that awaits others, or is not debounced, stays as it is.
-- Result: false if it is in other hands at this moment, so that all must be looked at again.
CREATE FUNCTION debounce(
    now bigint, in_id text, in_task text, in_body bytea, delay bigint, in_sequence bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    until bigint;
    lined boolean;
    in_due bigint;
BEGIN
    SELECT j.debounce_until, is_lined(j) INTO until, lined FROM job j WHERE j.id = in_id;
    IF until IS NULL THEN
        RETURN true;
    ELSIF lined THEN
        PERFORM lock_limits();
    END IF;
    -- As claims do, the row in the lane before the job; who claims it now is not waited for here.
    PERFORM FROM job j JOIN waiting w ON row_of(w, j) WHERE j.id = in_id
    FOR UPDATE OF w SKIP LOCKED;
    IF NOT FOUND THEN
        PERFORM pg_sleep(0.001);
        RETURN false;
    END IF;
    UPDATE job SET task = in_task, body = in_body WHERE id = in_id;
    in_due := least(now + delay, until);
    PERFORM leave_lane(now, in_id);
    UPDATE job SET due = in_due, delayed = in_due > now, sequence = in_sequence WHERE id = in_id;
    PERFORM join_lane(now, in_id, NULL);
    RETURN true;
END
$$;
