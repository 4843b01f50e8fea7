-- first_token(place): the token of a job before its first claim, from its place among all jobs.
-- Places only grow, so it is above every token that an earlier job of the same id can have had.
CREATE FUNCTION first_token(place bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT place * 4096
$$;

-- expires(job): until when it must have started; NULL when it has used an attempt. What a drain
-- returned has not.
CREATE FUNCTION expires(j job) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN j.retry_count = 0 AND j.snoozes = 0 AND j.replay = 0 THEN j.expires_at END
$$;
