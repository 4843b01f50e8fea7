-- leave(given, worker): forget a worker that stopped on purpose. What it knew of its lanes, or was
-- rung for and did not come for, is told to another.
CREATE FUNCTION leave(given bigint, in_worker text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    known text[];
BEGIN
    DELETE FROM worker WHERE id = in_worker;
    DELETE FROM sleeper WHERE worker = in_worker AND waiting RETURNING lanes INTO known;
    IF FOUND AND any_asleep() THEN
        PERFORM ring_heads(instant(given), known, false);
    END IF;
    DELETE FROM sleeper WHERE worker = in_worker;
END
$$;
