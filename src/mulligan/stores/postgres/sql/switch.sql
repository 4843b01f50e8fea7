-- switch(given, queue, region, breaker before, breaker after): replace a breaker if it is still as
-- it was; whether it was. Its `since` is the time at which it last opened or closed. replans:
-- whether plans change with it. One that was never switched is closed.
CREATE FUNCTION switch(
    given bigint, in_queue text, in_region text, was_open boolean, was_since bigint,
    had_probes integer, was_probed_at bigint, to_open boolean, to_probes integer,
    to_probed_at bigint, replans boolean
) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    new_since bigint := CASE WHEN was_open <> to_open THEN instant(given) ELSE was_since END;
    done boolean;
BEGIN
    IF replans THEN
        PERFORM lock_facts();
    END IF;
    UPDATE breaker
    SET open = to_open, since = new_since, probes = to_probes, probed_at = to_probed_at
    WHERE queue = in_queue AND region = in_region AND open = was_open AND since = was_since
      AND probes = had_probes AND probed_at = was_probed_at;
    done := FOUND;
    IF NOT done AND NOT was_open AND was_since = 0 AND had_probes = 0 THEN
        INSERT INTO breaker (queue, region, open, since, probes, probed_at)
        VALUES (in_queue, in_region, to_open, new_since, to_probes, to_probed_at)
        ON CONFLICT DO NOTHING;
        done := FOUND;
    END IF;
    IF done AND replans THEN
        PERFORM change_facts();
    END IF;
    RETURN done;
END
$$;
