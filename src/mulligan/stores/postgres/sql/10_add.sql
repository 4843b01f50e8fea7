-- add(now, called, columns of the new jobs): store jobs, in order.
-- called: for each job whether a sleeper was rung for it, NULL if for none.
-- Result: NULL if every job is new; otherwise for each job the id of the one that was there
-- before it, or NULL where it is new.
-- A job is there before if it has the same id, or the same unique key in the queue and has not
-- ended. Nearly always all are new: they are inserted together, and only when that fails is
-- each looked at for itself.
CREATE FUNCTION add(
    now bigint, called boolean[], ids text[], queues text[], tasks text[], bodies bytea[],
    regions text[], priorities smallint[], delays bigint[], unique_keys text[],
    concurrency_keys text[], concurrency_limits integer[], expire bigint[]
) RETURNS text[]
LANGUAGE plpgsql
AS $$
DECLARE
    before text[];
BEGIN
    INSERT INTO job (place, sequence, due, created_at, expires_at, priority, lane_priority,
                     delayed, called, id, queue, scope, region, task, unique_key,
                     concurrency_key, concurrency_limit, body)
    SELECT n.number, n.number, now + n.delay, now, now + n.expires, n.priority, n.priority,
           n.delay > 0, coalesce(n.called, false), n.id, n.queue, n.region, n.region, n.task,
           n.unique_key, n.concurrency_key, n.concurrency_limit, n.body
    FROM (
        SELECT nextval('counter') AS number, u.*
        FROM unnest(ids, queues, tasks, bodies, regions, priorities, delays, unique_keys,
                    concurrency_keys, concurrency_limits, expire, called)
          AS u (id, queue, task, body, region, priority, delay, unique_key, concurrency_key,
                concurrency_limit, expires, called)
    ) n;
    -- A job that ended meanwhile is visible here: the insert met no living one.
    IF EXISTS (SELECT FROM ended WHERE id = ANY (ids)) THEN
        RAISE unique_violation;
    END IF;
    RETURN NULL;
EXCEPTION WHEN unique_violation THEN
    FOR i IN 1 .. cardinality(ids) LOOP
        before[i] := add_one(
            now, coalesce(called[i], false), ids[i], queues[i], tasks[i], bodies[i], regions[i],
            priorities[i], delays[i], unique_keys[i], concurrency_keys[i], concurrency_limits[i],
            expire[i]);
    END LOOP;
    RETURN before;
END
$$;

-- add_one(now, called, the new job): store one job; the id of the one before it, or NULL if it is
-- new.
CREATE FUNCTION add_one(
    now bigint, in_called boolean, in_id text, in_queue text, in_task text, in_body bytea,
    in_region text, in_priority smallint, in_delay bigint, in_unique_key text,
    in_concurrency_key text, in_concurrency_limit integer, in_expires bigint
) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    number bigint;
    first text;
BEGIN
    LOOP
        IF EXISTS (SELECT FROM job WHERE id = in_id) OR EXISTS (SELECT FROM ended WHERE id = in_id)
        THEN
            RETURN in_id;
        END IF;
        IF in_unique_key IS NOT NULL THEN
            SELECT id INTO first FROM job WHERE queue = in_queue AND unique_key = in_unique_key;
            IF FOUND THEN
                RETURN first;
            END IF;
        END IF;
        number := nextval('counter');
        INSERT INTO job (place, sequence, due, created_at, expires_at, priority, lane_priority,
                         delayed, called, id, queue, scope, region, task, unique_key,
                         concurrency_key, concurrency_limit, body)
        VALUES (number, number, now + in_delay, now, now + in_expires, in_priority, in_priority,
                in_delay > 0, in_called, in_id, in_queue, in_region, in_region, in_task,
                in_unique_key, in_concurrency_key, in_concurrency_limit, in_body)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            -- It may have ended between the two looks.
            IF NOT EXISTS (SELECT FROM ended WHERE id = in_id) THEN
                RETURN NULL;
            END IF;
            DELETE FROM job WHERE id = in_id;
            RETURN in_id;
        END IF;
    END LOOP;
END
$$;
