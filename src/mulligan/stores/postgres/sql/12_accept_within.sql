-- accept_within(columns of the new jobs): store in the caller's own transaction, which may commit
-- much later: sleepers are rung then, by a deferred trigger, and only if it commits.
CREATE FUNCTION accept_within(
    given bigint, ids text[], queues text[], tasks text[], bodies bytea[], regions text[],
    priorities smallint[], delays bigint[], unique_keys text[], concurrency_keys text[],
    concurrency_limits integer[], expire bigint[], unique_ins text[], await integer[],
    gathers text[], gather_indexs integer[]
) RETURNS text[]
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    now bigint := instant(given);
    before text[] := add(now, NULL, NULL, ids, queues, tasks, bodies, regions, priorities, delays,
                         unique_keys, concurrency_keys, concurrency_limits, expire, unique_ins,
                         await, gathers, gather_indexs);
BEGIN
    INSERT INTO incoming (at, many, queues, regions, priorities, delays, awaits, before)
    VALUES (now, cardinality(ids), queues, regions, priorities, delays, await, before);
    RETURN before;
END
$$;

CREATE FUNCTION come_in() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM ring_new(NEW.at, NEW.many, NEW.queues, NEW.regions, NEW.priorities, NEW.delays,
                     NEW.awaits, NEW.before);
    DELETE FROM incoming WHERE id = NEW.id;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER come_in AFTER INSERT ON incoming DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION come_in();
