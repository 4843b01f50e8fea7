-- pause(queue, paused): stop or resume claims from a queue.
CREATE FUNCTION pause(in_queue text, in_paused boolean) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM alone_with_facts();
    IF in_paused IS DISTINCT FROM coalesce((SELECT paused FROM queue WHERE name = in_queue), false)
    THEN
        INSERT INTO queue (name, paused) VALUES (in_queue, in_paused)
        ON CONFLICT (name) DO UPDATE SET paused = excluded.paused;
        PERFORM change_facts();
    END IF;
END
$$;
