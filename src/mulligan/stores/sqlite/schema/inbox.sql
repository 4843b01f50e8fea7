-- The inbox of producers in other languages: one INSERT into it is one job enqueued.
-- Only task is needed; args is a JSON array, kwargs and retry are JSON objects, delay and keep are
-- seconds, priority is 'normal', 'retry' or 'urgent' (or 0, 1, 2); retry may also name a preset. What cannot
-- be a job goes to `refused` instead. `given` in a body says what its producer said: the rest is for
-- the task to say, when a worker takes the job.
-- It holds nothing itself, and is made anew whenever a file is brought up to date.

DROP VIEW IF EXISTS inbox;

CREATE VIEW inbox AS
SELECT
    NULL AS task, NULL AS args, NULL AS kwargs, NULL AS queue, NULL AS region, NULL AS delay,
    NULL AS priority, NULL AS id, NULL AS unique_key, NULL AS retry, NULL AS keep
WHERE 0;

CREATE TRIGGER inbox_insert INSTEAD OF INSERT ON inbox
BEGIN
    INSERT INTO incoming (now, id, queue, region, body, lane_priority, reason)
    SELECT
        round((julianday('now') - 2440587.5) * 86400.0, 3),
        coalesce(NEW.id, lower(hex(randomblob(16)))),
        coalesce(NEW.queue, 'default'),
        coalesce(NEW.region, '*'),
        -- The policy waits here for the body that it becomes a part of.
        CASE
            WHEN NEW.retry IN (
                'default', 'quick', 'steep', 'patient', 'sessions', 'P', 'G', 'F', 'M', 'D'
            ) THEN json_quote(NEW.retry)
            ELSE NEW.retry
        END,
        CASE
            WHEN NEW.priority IN (2, '2', 'urgent') THEN 2
            WHEN NEW.priority IN (1, '1', 'retry') THEN 1
            ELSE 0
        END,
        CASE
            WHEN NEW.task IS NULL THEN 'task is missing'
            WHEN NEW.priority NOT IN (0, 1, 2, '0', '1', '2', 'normal', 'retry', 'urgent')
                THEN 'priority is not one of normal (0), retry (1), urgent (2)'
            WHEN typeof(coalesce(NEW.delay, 0)) NOT IN ('integer', 'real')
                OR NOT coalesce(NEW.delay, 0) BETWEEN 0 AND 3153600000
                THEN 'delay is not a number of seconds'
            WHEN typeof(coalesce(NEW.keep, 0)) NOT IN ('integer', 'real')
                OR NOT coalesce(NEW.keep, 0) BETWEEN 0 AND 2147483647
                THEN 'keep is not a number of seconds'
            WHEN NOT json_valid(coalesce(NEW.args, '[]')) THEN 'args is not JSON'
            WHEN json_type(coalesce(NEW.args, '[]')) <> 'array' THEN 'args is not a JSON array'
            WHEN NOT json_valid(coalesce(NEW.kwargs, '{}')) THEN 'kwargs is not JSON'
            WHEN json_type(coalesce(NEW.kwargs, '{}')) <> 'object'
                THEN 'kwargs is not a JSON object'
            WHEN NEW.region <> '*' AND substr(NEW.region, 1, 1) = '*'
                THEN 'region must not begin with *'
            WHEN length(CAST(coalesce(NEW.args, '') || coalesce(NEW.kwargs, '')
                || coalesce(NEW.retry, '') AS BLOB)) > 262144
                THEN 'the payload has more than 262144 bytes'
            -- The path of a value says how deep it is. A name with odd characters stands there in
            -- quotes, and may hold anything; whether such a path is too deep, its worker finds out.
            WHEN EXISTS (
                SELECT 1
                FROM (
                    SELECT type, fullkey FROM json_tree(coalesce(NEW.args, '[]'))
                    UNION ALL SELECT type, fullkey FROM json_tree(coalesce(NEW.kwargs, '{}'))
                )
                WHERE
                    type IN ('array', 'object') AND instr(fullkey, '"') = 0
                    AND length(fullkey)
                        - length(replace(replace(fullkey, '[', ''), '.', '')) > 200
            ) THEN 'an argument is nested more than 200 levels deep; flatten it'
        END;

    UPDATE incoming
    SET reason = CASE
        WHEN NOT json_valid(body)
            THEN 'retry is neither JSON nor the name of a preset: default, quick, steep, patient,'
                || ' sessions, P, G, F, M, D'
        WHEN json_type(body) = 'text' AND json_extract(body, '$') NOT IN (
            'default', 'quick', 'steep', 'patient', 'sessions', 'P', 'G', 'F', 'M', 'D'
        ) THEN 'retry ' || body || ' is not the name of a preset: default, quick, steep, patient,'
            || ' sessions, P, G, F, M, D'
        WHEN json_type(body) NOT IN ('object', 'text') THEN 'retry is not a JSON object'
    END
    WHERE reason IS NULL AND body IS NOT NULL;

    UPDATE incoming
    SET reason = (
        SELECT names.kind || ' is not text of 1 to 128 characters without control characters'
        FROM (
            SELECT 'task' AS kind, NEW.task AS name
            UNION ALL SELECT 'queue', incoming.queue
            UNION ALL SELECT 'region', incoming.region
            UNION ALL SELECT 'id', incoming.id
            UNION ALL SELECT 'unique_key', coalesce(NEW.unique_key, '-')
        ) AS names
        WHERE
            typeof(names.name) <> 'text'
            OR length(names.name) NOT BETWEEN 1 AND 128
            OR instr(CAST(names.name AS BLOB), x'00') > 0
            OR names.name GLOB
                '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
        LIMIT 1
    )
    WHERE reason IS NULL;

    -- The same rules that a Retry is made by, as far as a worker's reading of it depends on them.
    UPDATE incoming
    SET reason = (
        SELECT CASE
            WHEN instr(', ' || part.fields || ',', ', ' || part.key || ',') = 0
                THEN 'retry.' || part.path || ' is not a field of a policy; '
                    || CASE part.parent WHEN '$' THEN 'retry' ELSE 'its backoff' END
                    || ' takes ' || part.fields
            ELSE 'retry.' || part.path || ' ' || coalesce(part.value, 'null') || ' is not valid'
        END
        FROM (
            SELECT
                tree.key AS key,
                ltrim(substr(replace(tree.fullkey, '"', ''), 2), '.') AS path,
                tree.type AS type,
                tree.atom AS value,
                tree.path AS parent,
                CASE tree.path
                    WHEN '$' THEN 'max_retries, backoff, scope, on, never'
                    WHEN '$.backoff' THEN CASE json_extract(NEW.retry, '$.backoff.type')
                        WHEN 'exponential' THEN 'type, base, factor, max, jitter'
                        WHEN 'adaptive' THEN 'type, base, factor, max, jitter, per'
                        WHEN 'delays' THEN 'type, seconds'
                        WHEN 'sessions'
                            THEN 'type, attempts, within, base, factor, max, jitter'
                    END
                END AS fields
            FROM json_tree(coalesce((SELECT body FROM incoming), '{}')) AS tree
            WHERE tree.fullkey <> '$'
        ) AS part
        WHERE NOT CASE
            WHEN instr(', ' || part.fields || ',', ', ' || part.key || ',') = 0 THEN 0
            WHEN part.parent = '$' AND part.key = 'max_retries'
                THEN part.type = 'null' OR (part.type = 'integer' AND part.value >= 0)
            WHEN part.parent = '$' AND part.key = 'scope'
                THEN part.type = 'text' AND part.value IN ('global', 'region')
            WHEN part.parent = '$' AND part.key = 'backoff'
                THEN part.type = 'object' AND coalesce(
                    json_extract(NEW.retry, '$.backoff.type')
                    IN ('exponential', 'adaptive', 'delays', 'sessions'), 0
                ) AND CASE json_extract(NEW.retry, '$.backoff.type')
                    WHEN 'delays'
                        THEN coalesce(json_array_length(NEW.retry, '$.backoff.seconds'), 0)
                            BETWEEN 1 AND 1000
                    WHEN 'sessions'
                        THEN coalesce(json_extract(NEW.retry, '$.backoff.attempts'), 3)
                            = 1 + coalesce(json_array_length(NEW.retry, '$.backoff.within'), 2)
                    ELSE 1
                END AND coalesce(
                    json_extract(NEW.retry, '$.backoff.max')
                    >= json_extract(NEW.retry, '$.backoff.base'), 1
                )
            WHEN part.parent = '$' AND part.key IN ('on', 'never') AND part.type = 'array'
                THEN json_array_length(NEW.retry, '$.' || part.key) <= 100
            WHEN part.parent IN ('$.on', '$.never')
                OR part.parent = '$' AND part.key IN ('on', 'never')
                THEN part.type = 'text' AND length(part.value) BETWEEN 1 AND 200
            WHEN part.parent = '$.backoff' AND part.key = 'jitter'
                THEN part.type = 'text' AND part.value IN ('none', 'full', 'decorrelated')
            WHEN part.parent = '$.backoff' AND part.key IN ('factor', 'per')
                THEN part.type IN ('integer', 'real') AND part.value > 0
            WHEN part.parent = '$.backoff' AND part.key = 'attempts'
                THEN part.type = 'integer' AND part.value BETWEEN 1 AND 1000
            WHEN part.parent = '$.backoff' AND part.key = 'max' AND part.type = 'null' THEN 1
            WHEN part.parent = '$.backoff' AND part.key IN ('base', 'max')
                OR part.parent IN ('$.backoff.seconds', '$.backoff.within')
                THEN part.type IN ('integer', 'real') AND part.value BETWEEN 0 AND 3153600000
            WHEN part.parent = '$.backoff' AND part.key IN ('seconds', 'within')
                THEN part.type = 'array'
            ELSE 1
        END
        LIMIT 1
    )
    WHERE reason IS NULL;

    INSERT INTO refused (
        at, reason, task, args, kwargs, queue, region, delay, priority, id, unique_key, retry,
        keep
    )
    SELECT
        now, reason, NEW.task, NEW.args, NEW.kwargs, NEW.queue, NEW.region, NEW.delay,
        NEW.priority, NEW.id, NEW.unique_key, NEW.retry, NEW.keep
    FROM incoming
    WHERE reason IS NOT NULL;

    DELETE FROM incoming WHERE reason IS NOT NULL;

    INSERT INTO meta (name, value)
    SELECT
        'sequence',
        max(
            coalesce((
                SELECT value FROM meta
                WHERE name = 'sequence' AND typeof(value) = 'integer' AND value BETWEEN 0 AND 1e15
            ), 0),
            coalesce((SELECT max(number) FROM job), 0)
        ) + 1
    FROM incoming
    WHERE true
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;

    UPDATE incoming
    SET
        number = (SELECT value FROM meta WHERE name = 'sequence'),
        due = round(now + coalesce(NEW.delay, 0), 6),
        body = CASE
            WHEN body IS NULL THEN json_object(
                'task', NEW.task,
                'args', json(coalesce(NEW.args, '[]')),
                'kwargs', json(coalesce(NEW.kwargs, '{}')),
                'given', json(iif(NEW.id IS NULL, '[]', '["id"]'))
            )
            ELSE json_object(
                'task', NEW.task,
                'args', json(coalesce(NEW.args, '[]')),
                'kwargs', json(coalesce(NEW.kwargs, '{}')),
                'retry', json(body),
                'given', json(iif(NEW.id IS NULL, '["retry"]', '["id","retry"]'))
            )
        END;

    UPDATE job SET key_queue = NULL
    WHERE number IN (
        SELECT l.number
        FROM incoming AS i
        JOIN lent_key AS l ON l.key_queue = i.queue AND l.unique_key = NEW.unique_key
        WHERE l.until <= i.now
    );

    INSERT INTO job (
        number, id, queue, task, region, priority, scope, lane_priority, due, sequence, delayed,
        token, created_at, unique_key, key_queue, keep, body
    )
    SELECT
        number, id, queue, NEW.task, region, lane_priority, region, lane_priority, due, number,
        due > now, number * 4096, now, NEW.unique_key,
        CASE WHEN NEW.unique_key IS NOT NULL THEN queue END,
        -- For a lease at least: a commit that is sent again must find the job as it was written.
        CASE WHEN NEW.keep IS NOT NULL THEN max(CAST(NEW.keep + 0.999999 AS INTEGER), 15) END,
        CAST(body AS BLOB)
    FROM incoming
    WHERE true
    ON CONFLICT DO NOTHING;

    INSERT INTO lane (queue, scope, lane_priority, due, sequence, number, delayed)
    SELECT j.queue, j.scope, j.lane_priority, j.due, j.sequence, j.number, j.delayed
    FROM incoming AS i
    JOIN job AS j ON j.number = i.number;

    -- One sleeper is woken, as for any job; it looks at its flag within a fraction of a second.
    UPDATE sleeper
    SET asleep = 0, woken = 1
    WHERE worker = (
        SELECT s.worker
        FROM incoming AS i
        JOIN job AS j ON j.number = i.number
        JOIN sleeper_lane AS l
            ON l.queue = j.queue AND l.scope = j.scope AND l.lane_priority = j.lane_priority
        JOIN sleeper AS s ON s.worker = l.worker
        JOIN worker AS alive ON alive.id = s.worker AND alive.beat_at + alive.lease > i.now
        WHERE s.asleep = 1 AND j.due + CASE l.yields WHEN 1 THEN 0 ELSE l.waited END < s.until
        ORDER BY l.waited, s.rowid
        LIMIT 1
    );

    DELETE FROM incoming;
END;
