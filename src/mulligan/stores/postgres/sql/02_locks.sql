-- Two locks beside those on rows, held to the end of the transaction.
-- (These and all functions that only other functions call have no search path of their own: setting
-- it anew in each would cost more than what they do.)
--
-- hold_facts(): shared by every claim, so that a change of facts waits for claims under way and
-- is seen by all later ones.  change_facts(): exclusive; a new epoch, and every sleeper is rung.
-- hold_gates(): one operation at a time reads and charges gates. It is taken after the locks on
-- jobs, and whoever holds it never waits for one: that is why they cannot deadlock. Only jobs that
-- await others come last of all, after the gates where those are needed, in the order of their ids.
CREATE FUNCTION hold_facts() RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock_shared('state'::regclass::oid::integer, 1)
$$;

CREATE FUNCTION hold_gates() RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock('state'::regclass::oid::integer, 2)
$$;

CREATE FUNCTION change_facts() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE state SET epoch = epoch + 1;
    PERFORM ring_all();
END
$$;

CREATE FUNCTION alone_with_facts() RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock('state'::regclass::oid::integer, 1)
$$;
