-- configure(queue, settings): store the settings of a queue.
CREATE FUNCTION configure(in_queue text, in_settings text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM lock_facts();
    INSERT INTO queue AS q (name, settings) VALUES (in_queue, in_settings)
    ON CONFLICT (name) DO UPDATE SET settings = excluded.settings
    WHERE q.settings IS DISTINCT FROM excluded.settings;
    IF FOUND THEN
        PERFORM change_facts();
    END IF;
END
$$;

-- pause(queue, paused): stop or resume claims from a queue.
CREATE FUNCTION pause(in_queue text, in_paused boolean) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM lock_facts();
    IF in_paused IS DISTINCT FROM coalesce((SELECT paused FROM queue WHERE name = in_queue), false)
    THEN
        INSERT INTO queue (name, paused) VALUES (in_queue, in_paused)
        ON CONFLICT (name) DO UPDATE SET paused = excluded.paused;
        PERFORM change_facts();
    END IF;
END
$$;
