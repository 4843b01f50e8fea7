-- What is locked, and in which order, so that nobody waits in a circle:
--
-- 1. rows of `waiting` of jobs that stand in lanes themselves. Claims pass over those that are
--    locked. Who has the row of a pending job may lock the job: nobody locks these the other way
--    round.
-- 2. rows of `job`, in the order of ids, but for those that stand in lines.
-- 3. rows of `claimed`, in the order of numbers.
-- 4. rows of `sleeper`: who wakes passes over those that are locked. A worker that claims with the
--    limits locked has locked its own before (stop_sleeping).
-- 5. the limits (lock_limits): one operation at a time reads and charges them, or changes lines.
-- 6. rows of `waiting` and `job` of those that stand in lines.
-- 7. jobs that await others, in the order of ids, and only then their rows of `waiting`.
--
-- A claim locks the limits before jobs, but only jobs whose row of `waiting` it has, so it never
-- waits for one. Jobs are inserted in the order given, before the limits are locked: two who enqueue
-- the same ids or unique keys in different order at once may meet; one of them is then tried again
-- as a whole.
--
-- (These and all functions that only other functions call have no search path of their own: setting
-- it anew in each would cost more than what they do. And they are in PL/pgSQL where they are called
-- often: it keeps plans, which functions in SQL do not.)

-- The locks are of tables, which nobody can lock without a right to change them; an advisory lock
-- is anybody's who may connect. They are taken before anything else is done with these tables, and
-- readers do not wait for them.

-- lock_facts_shared(): held by every claim, so that a change of facts waits for claims under way
-- and is seen by all later ones.
CREATE FUNCTION lock_facts_shared() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE state IN ROW SHARE MODE;
END
$$;

-- lock_facts(): held by whoever changes facts.
CREATE FUNCTION lock_facts() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE state IN EXCLUSIVE MODE;
END
$$;

-- lock_limits(): held by whoever reads or charges limits, or changes lines.
CREATE FUNCTION lock_limits() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE named_limit IN EXCLUSIVE MODE;
END
$$;

-- lock_schedules(): held by whoever changes schedules: a record that is not there yet has no row to
-- lock.
CREATE FUNCTION lock_schedules() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE schedule IN EXCLUSIVE MODE;
END
$$;

-- change_facts(): begin a new epoch, and wake every sleeper. The caller has locked the facts.
CREATE FUNCTION change_facts() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE state SET epoch = epoch + 1;
    PERFORM wake_all();
END
$$;
