-- configure(queue, settings): store the settings of a queue.
CREATE FUNCTION configure(in_queue text, in_settings text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM alone_with_facts();
    INSERT INTO queue AS q (name, settings) VALUES (in_queue, in_settings)
    ON CONFLICT (name) DO UPDATE SET settings = excluded.settings
    WHERE q.settings IS DISTINCT FROM excluded.settings;
    IF FOUND THEN
        PERFORM change_facts();
    END IF;
END
$$;
