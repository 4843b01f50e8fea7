-- switch(given, queue, region, breaker before, breaker after): replace a breaker if it is still as
-- it was; whether it was. Its `since` is the time at which it last opened or closed, which changes
-- the facts. One that was never switched is closed.
CREATE FUNCTION switch(
    given bigint, in_queue text, in_region text, was_open boolean, was_since bigint,
    had_probes integer, to_open boolean, to_probes integer
) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    turns boolean := was_open <> to_open;
    new_since bigint := CASE WHEN turns THEN instant(given) ELSE was_since END;
    done boolean;
BEGIN
    IF turns THEN
        PERFORM alone_with_facts();
    END IF;
    UPDATE breaker SET open = to_open, since = new_since, probes = to_probes
    WHERE queue = in_queue AND region = in_region
      AND open = was_open AND since = was_since AND probes = had_probes;
    done := FOUND;
    IF NOT done AND NOT was_open AND was_since = 0 AND had_probes = 0 THEN
        INSERT INTO breaker (queue, region, open, since, probes)
        VALUES (in_queue, in_region, to_open, new_since, to_probes) ON CONFLICT DO NOTHING;
        done := FOUND;
    END IF;
    IF done AND turns THEN
        PERFORM change_facts();
    END IF;
    RETURN done;
END
$$;
