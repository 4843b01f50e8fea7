-- add(now, called, numbers, columns of the new jobs): store jobs, in order.
-- called: for each job whether a sleeper was rung for it, NULL if for none. numbers: the place of
-- each among all jobs, or NULL for the next ones. Columns that no job has a value in are NULL;
-- those that every job has one in may be of length one if all are alike: most batches are of one
-- kind, and an array costs as much to read as a column to write.
-- Result: NULL if every job is new; otherwise for each job the id of the one that was there
-- before it, or NULL where it is new.
-- A job is there before if it has the same id, or the same unique key in the same queue and has not
-- ended. Nearly always all are new: they are inserted together, and only when that fails is
-- each looked at for itself.
CREATE FUNCTION add(
    now bigint, called boolean[], numbers bigint[], ids text[], queues text[], tasks text[],
    bodies bytea[], regions text[], priorities smallint[], delays bigint[], unique_keys text[],
    concurrency_keys text[], concurrency_limits integer[], expire bigint[], unique_ins text[],
    await integer[], gathers text[], gather_indexs integer[]
) RETURNS text[]
LANGUAGE plpgsql
AS $$
DECLARE
    before text[];
BEGIN
    IF numbers IS NULL AND unique_keys IS NULL AND concurrency_keys IS NULL AND expire IS NULL
       AND unique_ins IS NULL AND await IS NULL AND gathers IS NULL AND gather_indexs IS NULL
       AND cardinality(queues) = 1 AND cardinality(tasks) = 1 AND cardinality(regions) = 1
       AND cardinality(priorities) = 1 AND cardinality(delays) = 1
       AND cardinality(concurrency_limits) = 1 THEN
        PERFORM add_alike(now, called, ids, bodies, queues[1], tasks[1], regions[1], priorities[1],
                          delays[1], concurrency_limits[1]);
        RETURN NULL;
    END IF;
    WITH new AS MATERIALIZED (
        SELECT coalesce(u.given, nextval('counter')) AS number, u.id, u.body,
               coalesce(u.queue, queues[1]) AS queue, coalesce(u.task, tasks[1]) AS task,
               coalesce(u.region, regions[1]) AS region,
               coalesce(u.priority, priorities[1]) AS priority,
               coalesce(u.delay, delays[1]) AS delay, u.unique_key, u.concurrency_key,
               coalesce(u.concurrency_limit, concurrency_limits[1]) AS concurrency_limit,
               u.expires, u.unique_in, coalesce(u.awaits, 0) AS awaits, u.gather,
               coalesce(u.gather_index, 0) AS gather_index, coalesce(u.called, false) AS called
        FROM unnest(ids, queues, tasks, bodies, regions, priorities, delays, unique_keys,
                    concurrency_keys, concurrency_limits, expire, unique_ins, await, gathers,
                    gather_indexs, called, numbers)
          AS u (id, queue, task, body, region, priority, delay, unique_key, concurrency_key,
                concurrency_limit, expires, unique_in, awaits, gather, gather_index, called,
                given)
    ), stored AS (
        INSERT INTO job (place, sequence, due, created_at, token, expires_at, awaits, gather_index,
                         concurrency_limit, priority, lane_priority, delayed, id, queue, scope,
                         region, task, unique_key, unique_in, open_key, concurrency_key, gather,
                         body)
        SELECT n.number, n.number, now + n.delay, now, first_token(n.number), now + n.expires,
               n.awaits, n.gather_index, n.concurrency_limit, n.priority, n.priority,
               n.delay > 0, n.id, n.queue, n.region, n.region, n.task, n.unique_key, n.unique_in,
               n.unique_key, n.concurrency_key, n.gather, n.body
        FROM new n
    )
    INSERT INTO waiting (due, sequence, expires_at, concurrency_limit, held, called, delayed, lane,
                         id, concurrency_key)
    SELECT now + n.delay, n.number, now + n.expires, n.concurrency_limit, n.awaits > 0,
           n.called, n.delay > 0, lane_name(n.queue, n.region, n.priority), n.id,
           CASE WHEN n.awaits = 0 THEN n.concurrency_key END
    FROM new n;
    RETURN NULL;
EXCEPTION WHEN unique_violation THEN
    FOR i IN 1 .. cardinality(ids) LOOP
        before[i] := add_one(
            now, coalesce(called[i], false), coalesce(numbers[i], nextval('counter')), ids[i],
            coalesce(queues[i], queues[1]), coalesce(tasks[i], tasks[1]), bodies[i],
            coalesce(regions[i], regions[1]), coalesce(priorities[i], priorities[1]),
            coalesce(delays[i], delays[1]), unique_keys[i], concurrency_keys[i],
            coalesce(concurrency_limits[i], concurrency_limits[1]), expire[i], unique_ins[i],
            coalesce(await[i], 0), gathers[i], coalesce(gather_indexs[i], 0));
    END LOOP;
    RETURN before;
END
$$;

-- add_alike(now, called, ids, bodies, what they have in common): store jobs that differ in id and
-- body alone, and have nothing that only some jobs have. Most batches are so, and a third of the
-- time of reading, carrying and working out what all have in common for each is saved.
CREATE FUNCTION add_alike(
    now bigint, called boolean[], ids text[], bodies bytea[], in_queue text, in_task text,
    in_region text, in_priority smallint, in_delay bigint, in_limit integer
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    in_due bigint := now + in_delay;
    in_delayed boolean := in_delay > 0;
    in_lane text := lane_name(in_queue, in_region, in_priority);
BEGIN
    WITH new AS MATERIALIZED (
        SELECT nextval('counter') AS number, u.id, u.body, coalesce(u.called, false) AS called
        FROM unnest(ids, bodies, called) AS u (id, body, called)
    ), stored AS (
        INSERT INTO job (place, sequence, due, created_at, token, concurrency_limit, priority,
                         lane_priority, delayed, id, queue, scope, region, task, body)
        SELECT n.number, n.number, in_due, now, first_token(n.number), in_limit, in_priority,
               in_priority, in_delayed, n.id, in_queue, in_region, in_region, in_task, n.body
        FROM new n
    )
    INSERT INTO waiting (due, sequence, concurrency_limit, called, delayed, lane, id)
    SELECT in_due, n.number, in_limit, n.called, in_delayed, in_lane, n.id
    FROM new n;
END
$$;

-- add_one(now, called, number, the new job): store one job; the id of the one before it, or NULL if
-- it is new.
CREATE FUNCTION add_one(
    now bigint, in_called boolean, number bigint, in_id text, in_queue text, in_task text,
    in_body bytea, in_region text, in_priority smallint, in_delay bigint, in_unique_key text,
    in_concurrency_key text, in_concurrency_limit integer, in_expires bigint, in_unique_in text,
    in_awaits integer, in_gather text, in_gather_index integer
) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    first text;
BEGIN
    LOOP
        SELECT j.id INTO first FROM job j WHERE j.id = in_id;
        IF NOT FOUND AND in_unique_key IS NOT NULL THEN
            SELECT j.id INTO first FROM job j
            WHERE coalesce(j.unique_in, j.queue) = coalesce(in_unique_in, in_queue)
              AND j.open_key = in_unique_key;
        END IF;
        IF first IS NOT NULL THEN
            RETURN first;
        END IF;
        INSERT INTO job (place, sequence, due, created_at, token, expires_at, awaits, gather_index,
                         concurrency_limit, priority, lane_priority, delayed, id, queue, scope,
                         region, task, unique_key, unique_in, open_key, concurrency_key, gather,
                         body)
        VALUES (number, number, now + in_delay, now, first_token(number), now + in_expires,
                in_awaits, in_gather_index, in_concurrency_limit, in_priority, in_priority,
                in_delay > 0, in_id, in_queue, in_region, in_region, in_task, in_unique_key,
                in_unique_in, in_unique_key, in_concurrency_key, in_gather, in_body)
        ON CONFLICT DO NOTHING;
        IF FOUND THEN
            PERFORM stand(in_id, in_called);
            RETURN NULL;
        END IF;
    END LOOP;
END
$$;
