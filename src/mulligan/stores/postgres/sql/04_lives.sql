-- first_token(place): the token of a job before its first claim, from its place among all jobs. Places
-- only grow, so it is above every token that an earlier job of the same id can have had.
CREATE FUNCTION first_token(place bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT place * 4096
$$;

-- never_started(job): whether it has used no attempt: what a drain returned counts as never claimed.
CREATE FUNCTION never_started(j job) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT j.retry_count = 0 AND j.snoozes = 0 AND j.replay = 0
$$;
