-- reschedule(given, name, before, after, withdraw, edit, jobs): replace the record of a schedule, if
-- it is still the one before, delete ticks that are pending and have never started, and place
-- others. Result: whether it was done, or is so already.
CREATE FUNCTION reschedule(
    given bigint, in_name text, before text, after text, withdraw text[], edit boolean,
    jobs new_jobs
) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    stored text;
    unstarted text[];
BEGIN
    IF edit THEN
        PERFORM lock_facts();
    END IF;
    PERFORM lock_schedules();
    SELECT s.record INTO stored FROM schedule s WHERE s.name = in_name;
    IF stored IS DISTINCT FROM before THEN
        RETURN stored IS NOT DISTINCT FROM after;
    END IF;
    IF after IS NULL THEN
        DELETE FROM schedule WHERE name = in_name;
    ELSE
        INSERT INTO schedule (name, record) VALUES (in_name, after)
        ON CONFLICT (name) DO UPDATE SET record = excluded.record;
    END IF;
    IF cardinality(withdraw) > 0 THEN
        PERFORM lock_living(withdraw);
        unstarted := ARRAY(
            SELECT j.id FROM job j
            WHERE j.id = ANY (withdraw) AND j.status = 'pending' AND j.retry_count = 0
              AND j.snoozes = 0 AND j.replay = 0);
        PERFORM cancel(given, unstarted, 'its schedule was changed');
        PERFORM purge(given, unstarted);
    END IF;
    IF cardinality(jobs.id) > 0 THEN
        PERFORM receive(given, jobs);
    END IF;
    IF edit THEN
        PERFORM change_facts();
    END IF;
    RETURN true;
END
$$;

-- schedules(): the records of all schedules.
CREATE FUNCTION schedules() RETURNS TABLE (name text, record text)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT s.name, s.record FROM schedule s ORDER BY s.name
$$;
