-- add(now, called, numbers, columns of the new jobs): store jobs, in order.
-- called: for each job whether a sleeper was rung for it, NULL if for none. numbers: the place of
-- each among all jobs, or NULL for the next ones. Columns that no job has a value in are NULL.
-- Result: NULL if every job is new; otherwise for each job the id of the one that was there
-- before it, or NULL where it is new.
-- A job is there before if it has the same id, or the same unique key in the same queue and has not
-- ended. Nearly always all are new: they are inserted together, and only when that fails is
-- each looked at for itself.
CREATE FUNCTION add(
    now bigint, called boolean[], numbers bigint[], ids text[], queues text[], tasks text[],
    bodies bytea[], regions text[], priorities smallint[], delays bigint[], unique_keys text[],
    concurrency_keys text[], concurrency_limits integer[], expire bigint[], unique_ins text[],
    await integer[], gathers text[], gather_places integer[]
) RETURNS text[]
LANGUAGE plpgsql
AS $$
DECLARE
    before text[];
BEGIN
    INSERT INTO job (place, sequence, due, created_at, expires_at, priority, lane_priority,
                     delayed, called, held, id, queue, scope, region, task, unique_key, unique_in,
                     concurrency_key, concurrency_limit, awaits, gather, gather_place, token, body)
    SELECT n.number, CASE WHEN n.awaits > 0 THEN 0 ELSE n.number END, now + n.delay, now,
           now + n.expires, n.priority, n.priority, n.delay > 0, coalesce(n.called, false),
           coalesce(n.awaits, 0) > 0, n.id, n.queue, n.region, n.region, n.task, n.unique_key,
           n.unique_in, n.concurrency_key, n.concurrency_limit, coalesce(n.awaits, 0), n.gather,
           coalesce(n.gather_place, 0), first_token(n.number), n.body
    FROM (
        SELECT coalesce(u.given, nextval('counter')) AS number, u.*
        FROM unnest(ids, queues, tasks, bodies, regions, priorities, delays, unique_keys,
                    concurrency_keys, concurrency_limits, expire, unique_ins, await, gathers,
                    gather_places, called, numbers)
          AS u (id, queue, task, body, region, priority, delay, unique_key, concurrency_key,
                concurrency_limit, expires, unique_in, awaits, gather, gather_place, called,
                given)
    ) n;
    -- A job that ended meanwhile is visible here: the insert met no living one.
    IF EXISTS (SELECT FROM ended WHERE id = ANY (ids)) THEN
        RAISE unique_violation;
    END IF;
    RETURN NULL;
EXCEPTION WHEN unique_violation THEN
    FOR i IN 1 .. cardinality(ids) LOOP
        before[i] := add_one(
            now, coalesce(called[i], false), numbers[i], ids[i], queues[i], tasks[i], bodies[i],
            regions[i], priorities[i], delays[i], unique_keys[i], concurrency_keys[i],
            concurrency_limits[i], expire[i], unique_ins[i], coalesce(await[i], 0), gathers[i],
            coalesce(gather_places[i], 0));
    END LOOP;
    RETURN before;
END
$$;

-- add_one(now, called, number, the new job): store one job; the id of the one before it, or NULL if
-- it is new.
CREATE FUNCTION add_one(
    now bigint, in_called boolean, in_number bigint, in_id text, in_queue text, in_task text,
    in_body bytea, in_region text, in_priority smallint, in_delay bigint, in_unique_key text,
    in_concurrency_key text, in_concurrency_limit integer, in_expires bigint, in_unique_in text,
    in_awaits integer, in_gather text, in_gather_place integer
) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    number bigint := coalesce(in_number, nextval('counter'));
    first text;
BEGIN
    LOOP
        IF EXISTS (SELECT FROM job WHERE id = in_id) OR EXISTS (SELECT FROM ended WHERE id = in_id)
        THEN
            RETURN in_id;
        END IF;
        IF in_unique_key IS NOT NULL THEN
            SELECT id INTO first FROM job
            WHERE coalesce(unique_in, queue) = coalesce(in_unique_in, in_queue)
              AND unique_key = in_unique_key;
            IF FOUND THEN
                RETURN first;
            END IF;
        END IF;
        INSERT INTO job (place, sequence, due, created_at, expires_at, priority, lane_priority,
                         delayed, called, held, id, queue, scope, region, task, unique_key,
                         unique_in, concurrency_key, concurrency_limit, awaits, gather,
                         gather_place, token, body)
        VALUES (number, CASE WHEN in_awaits > 0 THEN 0 ELSE number END, now + in_delay, now,
                now + in_expires, in_priority, in_priority, in_delay > 0, in_called, in_awaits > 0,
                in_id, in_queue, in_region, in_region, in_task, in_unique_key, in_unique_in,
                in_concurrency_key, in_concurrency_limit, in_awaits, in_gather, in_gather_place,
                first_token(number), in_body)
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
