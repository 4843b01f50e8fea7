-- Retry policies of producers that speak only SQL: the rule of core/retry.py, so that a worker can
-- read whatever is stored.

-- check_retry(retry): refuse an object that is no policy.
CREATE FUNCTION check_retry(retry jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    classes text;
BEGIN
    PERFORM check_fields('retry', retry, '{max_retries,backoff,scope,on,never}');
    IF retry -> 'max_retries' <> 'null' AND NOT is_whole(retry -> 'max_retries') THEN
        PERFORM refuse_field('retry.max_retries', retry -> 'max_retries',
                             'a whole number from 0 on, or null for retries without end');
    ELSIF retry -> 'scope' <> ALL (ARRAY['"global"', '"region"']::jsonb[]) THEN
        PERFORM refuse_field('retry.scope', retry -> 'scope', '"global" or "region"');
    END IF;
    FOREACH classes IN ARRAY '{on,never}'::text[] LOOP
        IF NOT is_classes(retry -> classes) THEN
            PERFORM refuse_field('retry.' || classes, retry -> classes,
                                 'the name of an exception class, or a list of at most 100, of 1 to'
                                 ' 200 characters each and without control characters');
        END IF;
    END LOOP;
    IF retry ? 'backoff' THEN
        PERFORM check_backoff(retry -> 'backoff');
    END IF;
END
$$;

-- check_backoff(backoff): refuse what is no backoff.
CREATE FUNCTION check_backoff(backoff jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    century constant numeric := 3153600000;
    kind text := CASE WHEN jsonb_typeof(backoff -> 'type') = 'string' THEN backoff ->> 'type' END;
    known text[] := CASE kind
        WHEN 'exponential' THEN '{type,base,factor,max,jitter}'
        WHEN 'adaptive' THEN '{type,base,factor,max,jitter,per}'
        WHEN 'delays' THEN '{type,seconds}'
        WHEN 'sessions' THEN '{type,attempts,within,base,factor,max,jitter}' END;
    field text;
    many integer := 3;
BEGIN
    IF known IS NULL THEN
        PERFORM refuse_field('retry.backoff', backoff, 'a JSON object whose type is exponential,'
                             ' adaptive, delays or sessions');
    END IF;
    PERFORM check_fields('retry.backoff', backoff, known);
    FOREACH field IN ARRAY '{base,max}'::text[] LOOP
        IF NOT is_number(backoff -> field, 0, century)
           AND (field, backoff -> field) IS DISTINCT FROM ('max', 'null'::jsonb) THEN
            PERFORM refuse_field('retry.backoff.' || field, backoff -> field,
                                 format('a number of seconds from 0 to %s', century));
        END IF;
    END LOOP;
    -- The smallest and the largest number above 0 that a worker can read.
    FOREACH field IN ARRAY '{factor,per}'::text[] LOOP
        IF NOT is_number(backoff -> field, 5e-324, 1.7976931348623157e308) THEN
            PERFORM refuse_field('retry.backoff.' || field, backoff -> field, 'a number above 0');
        END IF;
    END LOOP;
    FOREACH field IN ARRAY '{seconds,within}'::text[] LOOP
        IF NOT is_seconds(backoff -> field, century) THEN
            PERFORM refuse_field('retry.backoff.' || field, backoff -> field,
                                 format('a list of numbers of seconds from 0 to %s', century));
        END IF;
    END LOOP;
    IF backoff -> 'jitter' <> ALL (ARRAY['"none"', '"full"', '"decorrelated"']::jsonb[]) THEN
        PERFORM refuse_field('retry.backoff.jitter', backoff -> 'jitter',
                             '"none", "full" or "decorrelated"');
    ELSIF kind = 'delays'
          AND coalesce(jsonb_array_length(backoff -> 'seconds'), 0) NOT BETWEEN 1 AND 1000 THEN
        PERFORM refuse('retry.backoff.seconds must be a list of 1 to 1000 delays');
    ELSIF kind = 'sessions' THEN
        IF backoff ? 'attempts' THEN
            IF NOT (is_whole(backoff -> 'attempts') AND is_number(backoff -> 'attempts', 1, 1000))
            THEN
                PERFORM refuse_field('retry.backoff.attempts', backoff -> 'attempts',
                                     'a whole number from 1 to 1000');
            END IF;
            many := backoff ->> 'attempts';
        END IF;
        IF coalesce(jsonb_array_length(backoff -> 'within'), 2) <> many - 1 THEN
            PERFORM refuse(format('retry.backoff.within must have the %s waits between the %s'
                                  ' attempts of a session', many - 1, many));
        END IF;
    END IF;
    IF kind <> 'delays' AND backoff -> 'max' IS DISTINCT FROM 'null' AND
       coalesce((backoff ->> 'max')::numeric, CASE kind WHEN 'sessions' THEN 3600 ELSE 60 END) <
       coalesce((backoff ->> 'base')::numeric, CASE kind WHEN 'sessions' THEN 300 ELSE 2 END) THEN
        PERFORM refuse('retry.backoff.max must be at least its base; raise max');
    END IF;
END
$$;

-- check_fields(what, object, known): refuse a field that it does not have.
CREATE FUNCTION check_fields(what text, object jsonb, known text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    unknown text := (SELECT k FROM jsonb_object_keys(object) k WHERE k <> ALL (known) LIMIT 1);
BEGIN
    IF unknown IS NOT NULL THEN
        PERFORM refuse(format('%s has no field %L; it takes %s', what, left(unknown, 40),
                              array_to_string(known, ', ')));
    END IF;
END
$$;

-- refuse_field(name, value, rule): refuse a field with what it must be.
CREATE FUNCTION refuse_field(name text, value jsonb, rule text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM refuse(format('%s %s must be %s', name, left(value::text, 40), rule));
END
$$;

-- is_whole, is_number, is_seconds, is_classes: whether a field is left out, or valid.
CREATE FUNCTION is_whole(value jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT value IS NULL OR (jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]+$')
$$;

CREATE FUNCTION is_number(value jsonb, low numeric, high numeric) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value IS NULL THEN true
                WHEN jsonb_typeof(value) <> 'number' THEN false
                ELSE value::numeric BETWEEN low AND high END
$$;

CREATE FUNCTION is_seconds(value jsonb, most numeric) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value IS NULL THEN true
                WHEN jsonb_typeof(value) <> 'array' THEN false
                ELSE NOT EXISTS (SELECT FROM jsonb_array_elements(value) e
                                 WHERE NOT is_number(e, 0, most)) END
$$;

CREATE FUNCTION is_classes(value jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE coalesce(jsonb_typeof(value), 'none')
        WHEN 'none' THEN true
        WHEN 'string' THEN is_class(value)
        WHEN 'array' THEN jsonb_array_length(value) <= 100
            AND NOT EXISTS (SELECT FROM jsonb_array_elements(value) e WHERE NOT is_class(e))
        ELSE false END
$$;

CREATE FUNCTION is_class(value jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_typeof(value) = 'string' AND length(value #>> '{}') BETWEEN 1 AND 200
       AND value #>> '{}' !~ E'[\\x01-\\x1f\\x7f-\\x9f]'
$$;
