-- What producers call that speak only SQL.

-- enqueue(task, args, kwargs, …): enqueue one job from any language, in the caller's transaction.
-- Result: its id, or that of the job with the same id or unique key. Raises
-- invalid_parameter_value for what is no valid job. delay, expires, timeout and keep are in seconds;
-- limits is an object of costs by name; retry is the policy as JSON, or the name of a preset as a JSON string. `given` in the body says
-- what the caller has said: the rest is for the task to say, when a worker takes the job.
CREATE FUNCTION enqueue(
    task text, args jsonb DEFAULT '[]', kwargs jsonb DEFAULT '{}', queue text DEFAULT 'default',
    region text DEFAULT '*', priority integer DEFAULT 0, delay float8 DEFAULT 0,
    unique_key text DEFAULT NULL, limits jsonb DEFAULT NULL, fairness_key text DEFAULT NULL,
    expires float8 DEFAULT NULL, retry jsonb DEFAULT NULL, timeout float8 DEFAULT NULL,
    id text DEFAULT NULL, keep float8 DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    new_id text := coalesce(id, gen_random_uuid()::text);
    body bytea;
    new new_jobs;
    before text[];
    century constant float8 := 3153600000;
BEGIN
    PERFORM check_name('task', task), check_name('queue', queue), check_name('region', region),
            check_name('id', new_id);
    IF region LIKE '*_%' THEN
        PERFORM refuse(format('region %s must not begin with ''*''', region));
    END IF;
    IF unique_key IS NOT NULL THEN
        PERFORM check_name('unique_key', unique_key);
    END IF;
    IF fairness_key IS NOT NULL THEN
        PERFORM check_name('fairness_key', fairness_key);
    END IF;
    PERFORM check_costs(limits);
    IF jsonb_typeof(args) IS DISTINCT FROM 'array' THEN
        PERFORM refuse(format('args %s must be a JSON array', left(args::text, 40)));
    ELSIF jsonb_typeof(kwargs) IS DISTINCT FROM 'object' THEN
        PERFORM refuse(format('kwargs %s must be a JSON object', left(kwargs::text, 40)));
    ELSIF jsonb_typeof(retry) = 'string' AND NOT retry <@ presets() THEN
        PERFORM refuse(format('retry %s is not one of %s', retry, presets()));
    ELSIF jsonb_typeof(retry) NOT IN ('object', 'string') THEN
        PERFORM refuse(format('retry %s must be a JSON object or a JSON string that names a preset',
                              left(retry::text, 40)));
    ELSIF priority IS NULL OR priority NOT IN (0, 1, 2) THEN
        PERFORM refuse(format('priority %s must be 0 (normal), 1 (retry) or 2 (urgent)', priority));
    ELSIF NOT coalesce(delay >= 0 AND delay <= century, false) THEN
        PERFORM refuse(format('delay %s must be between 0 and %s s', delay, century));
    ELSIF NOT coalesce(expires >= 0 AND expires <= century, expires IS NULL) THEN
        PERFORM refuse(format('expires %s must be between 0 and %s s', expires, century));
    ELSIF NOT coalesce(timeout > 0 AND timeout <= century, timeout IS NULL) THEN
        PERFORM refuse(format('timeout %s must be above 0 and at most %s s', timeout, century));
    ELSIF NOT coalesce(keep >= 0 AND keep <= least(century, 2147483647), keep IS NULL) THEN
        PERFORM refuse(format('keep %s must be between 0 and 2147483647 s', keep));
    END IF;
    IF jsonb_typeof(retry) = 'object' THEN
        PERFORM check_retry(retry);
    END IF;
    PERFORM check_depth(args), check_depth(kwargs);
    body := convert_to((
        jsonb_build_object('task', task, 'args', args, 'kwargs', kwargs)
        || CASE WHEN retry IS NULL THEN '{}' ELSE jsonb_build_object('retry', retry) END
        || CASE WHEN timeout IS NULL THEN '{}' ELSE jsonb_build_object('timeout', timeout) END
        || jsonb_build_object('given', to_jsonb(array_remove(ARRAY[
            CASE WHEN id IS NOT NULL THEN 'id' END,
            CASE WHEN retry IS NOT NULL THEN 'retry' END,
            CASE WHEN timeout IS NOT NULL THEN 'timeout' END,
            CASE WHEN limits IS NOT NULL THEN 'limits' END,
            CASE WHEN fairness_key IS NOT NULL THEN 'fairness_key' END], NULL)))
    )::text, 'UTF8');
    IF length(body) > 262144 THEN
        PERFORM refuse(format('a body of %s bytes is over the limit of 262144', length(body)));
    END IF;
    new.id := ARRAY[new_id];
    new.queue := ARRAY[queue];
    new.task := ARRAY[task];
    new.body := ARRAY[body];
    new.region := ARRAY[region];
    new.priority := ARRAY[priority];
    new.delay := ARRAY[round(delay * 1000000)];
    new.unique_key := ARRAY[unique_key];
    new.limits := ARRAY[limits_text(limits)];
    new.fairness_key := ARRAY[fairness_key];
    new.expires := ARRAY[round(expires * 1000000)];
    -- For a lease at least: a commit that is sent again must find the job as it was written.
    new.keep := ARRAY[CASE WHEN keep IS NOT NULL THEN greatest(ceil(keep), 15) END];
    before := enqueue_in(NULL, new);
    RETURN coalesce(before[1], new_id);
END
$$;

-- presets(): the names that stand for policies, as a JSON array.
CREATE FUNCTION presets() RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT '["default", "quick", "steep", "patient", "sessions", "P", "G", "F", "M", "D"]'::jsonb
$$;

-- check_name(kind, name): refuse a name that is empty, too long or has control characters.
CREATE FUNCTION check_name(kind text, name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF name IS NULL OR length(name) NOT BETWEEN 1 AND 128 THEN
        PERFORM refuse(format('%s %s must have 1 to 128 characters', kind,
                              coalesce(quote_literal(left(name, 40)), 'NULL')));
    ELSIF name ~ E'[\\x01-\\x1f\\x7f-\\x9f]' THEN
        PERFORM refuse(format('%s %L has a control character; remove it', kind, name));
    END IF;
END
$$;

-- check_costs(limits): refuse limits that no job may name, or that nothing covers. As in
-- core/limits.py, and as an app does that is told of limits.
CREATE FUNCTION check_costs(limits jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    named record;
    most bigint;
BEGIN
    IF limits IS NULL THEN
        RETURN;
    ELSIF jsonb_typeof(limits) <> 'object' THEN
        PERFORM refuse(format('limits %s must be a JSON object of costs by name',
                              left(limits::text, 40)));
    ELSIF (SELECT count(*) FROM jsonb_object_keys(limits)) > 8 THEN
        PERFORM refuse('more than 8 limits for one job; name at most 8');
    END IF;
    FOR named IN SELECT e.key AS name, e.value AS cost FROM jsonb_each(limits) AS e LOOP
        PERFORM check_name('limit', named.name);
        IF position('*' IN named.name) > 0 THEN
            PERFORM refuse(format('limit %L is a pattern; a job names limits without ''*''',
                                  named.name));
        ELSIF jsonb_typeof(named.cost) <> 'number' OR named.cost::text !~ '^[1-9][0-9]{0,6}$'
              OR named.cost::text::bigint > 1000000 THEN
            PERFORM refuse(format('cost %s of limit %L must be a whole number from 1 to 1000000',
                                  left(named.cost::text, 40), named.name));
        END IF;
        SELECT coalesce(l.burst, l.rate, 1000000) INTO most FROM limit_of(named.name) l;
        IF NOT FOUND THEN
            PERFORM refuse(format('no limit covers %L; declare it with app.limit, or set it with'
                                  ' mulligan limits set', named.name));
        ELSIF named.cost::text::bigint > most THEN
            PERFORM refuse(format('cost %s of limit %L could never be had: it allows %s at most',
                                  named.cost, named.name, most));
        END IF;
    END LOOP;
END
$$;

-- limits_text(limits): limits as jobs have them, in order of names; NULL if there are none.
CREATE FUNCTION limits_text(limits jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '{' || string_agg(to_json(e.key) || ':' || e.value, ',' ORDER BY e.key COLLATE "C") || '}'
    FROM jsonb_each_text(limits) AS e
$$;

-- check_depth(value): refuse arguments of more than 200 levels, besides the list of them itself.
CREATE FUNCTION check_depth(value jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    json constant text := value::text;
    brackets text;
BEGIN
    IF length(json) - length(translate(json, '[{', '')) <= 201 THEN
        RETURN;
    END IF;
    brackets := regexp_replace(json, E'"([^"\\\\]|\\\\.)*"|[^][{}"]+', '', 'g');
    IF (
        SELECT max(level) > 201 FROM (
            SELECT sum(CASE WHEN bracket IN ('[', '{') THEN 1 ELSE -1 END) OVER (ORDER BY number)
            FROM unnest(string_to_array(brackets, NULL)) WITH ORDINALITY AS each (bracket, number)
        ) AS nested (level)
    ) THEN
        PERFORM refuse('an argument is nested more than 200 levels deep; flatten it');
    END IF;
END
$$;

-- refuse(reason): raise what `inbox` catches.
CREATE FUNCTION refuse(reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = reason, ERRCODE = 'invalid_parameter_value';
END
$$;

-- inbox: INSERT INTO inbox (task, args, …) enqueues, RETURNING id says which. What is no valid
-- job is kept in `refused` with the reason, and the rest of the statement goes on.
CREATE VIEW inbox AS
SELECT NULL::text AS task, NULL::jsonb AS args, NULL::jsonb AS kwargs, NULL::text AS queue,
       NULL::text AS region, NULL::integer AS priority, NULL::float8 AS delay,
       NULL::text AS unique_key, NULL::jsonb AS limits, NULL::text AS fairness_key,
       NULL::float8 AS expires, NULL::jsonb AS retry, NULL::float8 AS timeout, NULL::text AS id,
       NULL::float8 AS keep
WHERE false;

CREATE FUNCTION take_in() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.id := enqueue(
        NEW.task, coalesce(NEW.args, '[]'), coalesce(NEW.kwargs, '{}'),
        coalesce(NEW.queue, 'default'), coalesce(NEW.region, '*'),
        coalesce(NEW.priority, 0), coalesce(NEW.delay, 0), NEW.unique_key, NEW.limits,
        NEW.fairness_key, NEW.expires, NEW.retry, NEW.timeout, NEW.id,
        NEW.keep);
    RETURN NEW;
EXCEPTION WHEN invalid_parameter_value THEN
    INSERT INTO refused (reason, job) VALUES (SQLERRM, jsonb_strip_nulls(to_jsonb(NEW)));
    RETURN NULL;
END
$$;

CREATE TRIGGER take_in INSTEAD OF INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION take_in();
