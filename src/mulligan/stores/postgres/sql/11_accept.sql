-- ring_new(now, many, queues, regions, priorities, delays, awaits, before): ring for so many new
-- jobs, one sleeper each, but not for those that await others. before: what `add` said, or NULL.
-- Result: for each job whether one was rung, NULL if for none.
CREATE FUNCTION ring_new(
    now bigint, many integer, queues text[], regions text[], priorities smallint[], delays bigint[],
    await integer[], before text[]
) RETURNS boolean[]
LANGUAGE plpgsql
AS $$
DECLARE
    called boolean[];
    put record;
BEGIN
    IF NOT any_asleep() THEN
        RETURN NULL;
    END IF;
    IF many = 1 AND before IS NULL AND await IS NULL THEN  -- somebody waits for just this
        RETURN CASE WHEN ring_lane(now, lane_name(queues[1], regions[1], priorities[1]),
                                   now + delays[1], 1) > 0 THEN ARRAY[true] END;
    END IF;
    FOR put IN
        SELECT lane_name(coalesce(u.queue, queues[1]), coalesce(u.region, regions[1]),
                         coalesce(u.priority, priorities[1])) AS lane,
               now + coalesce(u.delay, delays[1]) AS due, count(*) AS many,
               array_agg(u.ord::integer ORDER BY u.ord) AS ords
        FROM unnest(queues, regions, priorities, delays, array_fill(NULL::boolean, ARRAY[many]))
          WITH ORDINALITY AS u (queue, region, priority, delay, each, ord)
        WHERE before[u.ord] IS NULL AND coalesce(await[u.ord], 0) = 0
        GROUP BY 1, 2 ORDER BY min(u.ord)
    LOOP
        FOR i IN 1 .. ring_lane(now, put.lane, put.due, put.many) LOOP
            called[put.ords[i]] := true;
        END LOOP;
    END LOOP;
    RETURN called;
END
$$;

-- receive(given, columns of the new jobs): ring and store.
-- Result: what `add` said, and whether anybody was rung. A job that turns out to be there already
-- has rung in vain: harmless.
CREATE FUNCTION receive(
    given bigint, ids text[], queues text[], tasks text[], bodies bytea[], regions text[],
    priorities smallint[], delays bigint[], unique_keys text[], concurrency_keys text[],
    concurrency_limits integer[], expire bigint[], unique_ins text[], await integer[],
    gathers text[], gather_indexs integer[], OUT before text[], OUT rung boolean
)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    now bigint := instant(given);
    called boolean[] := ring_new(now, cardinality(ids), queues, regions, priorities, delays, await,
                                 NULL);
BEGIN
    before := add(now, called, NULL, ids, queues, tasks, bodies, regions, priorities, delays,
                  unique_keys, concurrency_keys, concurrency_limits, expire, unique_ins, await,
                  gathers, gather_indexs);
    rung := called IS NOT NULL;
END
$$;

-- accept(given, columns of the new jobs, before): receive them as an operation of its own.
-- Whoever was rung hears of it when the jobs are committed, and need not wait until they are on
-- the disk: they are committed without, so that the claim is under way while the disk is waited for
-- in a second transaction, which writes an empty message to the log for no other reason. The log
-- keeps the order of commits, so that a claim which is on the disk has the job there, too.
-- (A procedure that commits may have no search path of its own. Hence @schema@, for which the
-- migration writes the schema's name.)
CREATE PROCEDURE accept(
    given bigint, ids text[], queues text[], tasks text[], bodies bytea[], regions text[],
    priorities smallint[], delays bigint[], unique_keys text[], concurrency_keys text[],
    concurrency_limits integer[], expire bigint[], unique_ins text[], await integer[],
    gathers text[], gather_indexs integer[], INOUT before text[]
)
LANGUAGE plpgsql
AS $accept$
DECLARE
    received record := @schema@.receive(
        given, ids, queues, tasks, bodies, regions, priorities, delays, unique_keys,
        concurrency_keys, concurrency_limits, expire, unique_ins, await, gathers, gather_indexs);
BEGIN
    before := received.before;
    IF received.rung THEN
        SET LOCAL synchronous_commit = off;
        COMMIT;
        PERFORM pg_catalog.pg_logical_emit_message(true, 'mulligan', ''::text);
    END IF;
END
$accept$;
