-- end_cancelled(now, id, token, reason): end one living job, which the caller has locked.
CREATE FUNCTION end_cancelled(now bigint, in_id text, in_token bigint, in_reason text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    WITH over AS (
        UPDATE job SET status = 'cancelled', ended_at = now, token = in_token, open_key = NULL,
                       cancel_reason = in_reason
        WHERE id = in_id RETURNING queue
    )
    INSERT INTO kept_change (many, queue, status) SELECT 1, queue, 'cancelled' FROM over;
    PERFORM keep_each(now, ARRAY[in_id]);
    PERFORM tell_ended(in_id);
END
$$;

-- keep(now, ids): have these jobs, done or cancelled now, deleted when their time is over.
CREATE FUNCTION keep(now bigint, in_ids text[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO ended (number, ended_at, ids) VALUES (nextval('counter'), now, in_ids);
END
$$;

-- keep_each(now, ids): the same, where some may say how long they are kept.
CREATE FUNCTION keep_each(now bigint, in_ids text[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO ended (number, ended_at, until, ids)
    SELECT nextval('counter'), now, now + j.keep * 1000000::bigint, array_agg(j.id)
    FROM job j WHERE j.id = ANY (in_ids) GROUP BY j.keep;
END
$$;

-- hand_back(numbers): one job less is held for each mention of a claim.
CREATE FUNCTION hand_back(numbers bigint[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM claimed WHERE number = ANY (numbers) ORDER BY number FOR UPDATE;
    UPDATE claimed c SET open = c.open - b.many
    FROM (SELECT u.number, count(*) AS many FROM unnest(numbers) AS u (number) GROUP BY 1) b
    WHERE c.number = ANY (ARRAY[b.number]);  -- looked up one by one
    DELETE FROM claimed WHERE number = ANY (numbers) AND open = 0;
END
$$;
