-- inbox: INSERT INTO inbox (task, args, …) enqueues, RETURNING id says which. What is no valid
-- job is kept in `refused` with the reason, and the rest of the statement goes on.
CREATE VIEW inbox AS
SELECT NULL::text AS task, NULL::jsonb AS args, NULL::jsonb AS kwargs, NULL::text AS queue,
       NULL::text AS region, NULL::integer AS priority, NULL::float8 AS delay,
       NULL::text AS unique_key, NULL::text AS concurrency_key, NULL::integer AS concurrency_limit,
       NULL::float8 AS expires, NULL::jsonb AS retry, NULL::float8 AS timeout, NULL::text AS id
WHERE false;

CREATE FUNCTION take_in() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.id := enqueue(
        NEW.task, coalesce(NEW.args, '[]'), coalesce(NEW.kwargs, '{}'),
        coalesce(NEW.queue, 'default'), coalesce(NEW.region, '*'),
        coalesce(NEW.priority, 0), coalesce(NEW.delay, 0), NEW.unique_key, NEW.concurrency_key,
        coalesce(NEW.concurrency_limit, 1), NEW.expires, NEW.retry, NEW.timeout, NEW.id);
    RETURN NEW;
EXCEPTION WHEN invalid_parameter_value THEN
    INSERT INTO refused (reason, job) VALUES (SQLERRM, jsonb_strip_nulls(to_jsonb(NEW)));
    RETURN NULL;
END
$$;

CREATE TRIGGER take_in INSTEAD OF INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION take_in();
