-- keep_records(given, ids, tokens, counts, keys, numbers, contents, log_limit): keep what attempts
-- record whose leases are still held. Each lease has so many of the records, which follow each
-- other in the last three.
-- Result: for each lease whether it is held.
CREATE FUNCTION keep_records(
    given bigint, ids text[], tokens bigint[], counts integer[], keys text[], numbers integer[],
    contents bytea[], log_limit integer
) RETURNS boolean[]
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    now bigint := instant(given);
    answers boolean[] := '{}';
    first integer := 1;
BEGIN
    PERFORM FROM job j WHERE j.id = ANY (ids) ORDER BY j.id FOR NO KEY UPDATE;
    FOR i IN 1 .. cardinality(ids) LOOP
        IF EXISTS (SELECT FROM job j
                   WHERE j.id = ids[i] AND j.token = tokens[i] AND j.status = 'processing') THEN
            FOR at IN first .. first + counts[i] - 1 LOOP
                PERFORM keep_record(ids[i], keys[at], tokens[i], numbers[at], now, contents[at]);
            END LOOP;
            PERFORM trim_log(ids[i], log_limit);
            answers := answers || true;
        ELSE
            answers := answers || false;
        END IF;
        first := first + counts[i];
    END LOOP;
    RETURN answers;
END
$$;

-- keep_record(job, key, token, number, at, content): the first of a step or line stays, and the
-- newest progress and checkpoint.
CREATE FUNCTION keep_record(
    in_job text, in_key text, in_token bigint, in_number integer, in_at bigint, content bytea
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO recorded AS r (job, key, token, number, at, value)
    VALUES (in_job, in_key, in_token, in_number, in_at, content)
    ON CONFLICT (job, key) DO UPDATE
    SET token = excluded.token, number = excluded.number, at = excluded.at, value = excluded.value
    WHERE r.key IN ('progress', 'checkpoint')
      AND (excluded.token, excluded.number) > (r.token, r.number);
END
$$;

-- trim_log(job, limit): of the lines the newest stay.
CREATE FUNCTION trim_log(in_job text, log_limit integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM recorded WHERE job = in_job AND key >= 'log:' AND key < (
        SELECT r.key FROM recorded r WHERE r.job = in_job AND r.key >= 'log:' AND r.key < 'log;'
        ORDER BY r.key DESC LIMIT 1 OFFSET log_limit - 1);
END
$$;

-- records(id, most): what the job has recorded, oldest first; steps and checkpoints of more than
-- `most` bytes have no value, unless it is NULL.
CREATE FUNCTION records(in_id text, most integer)
RETURNS TABLE (key text, token bigint, number integer, at bigint, value bytea, size integer)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT r.key, r.token, r.number, r.at,
           CASE WHEN most IS NULL OR octet_length(r.value) <= most
                     OR NOT (r.key = 'checkpoint' OR starts_with(r.key, 'step:'))
                THEN r.value END,
           octet_length(r.value)
    FROM recorded r WHERE r.job = in_id ORDER BY r.token, r.number, r.key
$$;
