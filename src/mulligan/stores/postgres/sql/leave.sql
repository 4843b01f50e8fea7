-- leave(given, worker): forget a worker that stopped on purpose. If it was waiting, or was woken
-- for a job and did not claim it, others are woken for its lanes.
CREATE FUNCTION leave(given bigint, in_worker text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    known text[];
BEGIN
    DELETE FROM worker WHERE id = in_worker;
    DELETE FROM sleeper WHERE worker = in_worker AND waiting RETURNING lanes INTO known;
    IF FOUND AND any_asleep() THEN
        PERFORM wake_heads(instant(given), known, false);
    END IF;
    DELETE FROM sleeper WHERE worker = in_worker;
END
$$;
