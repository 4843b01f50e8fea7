-- begin_sink(id, token): begin what `commit` is to end in this transaction, and mark it.
-- Result: 1 if the lease is held, 2 if its outcome is already written, 3 if it is stale.
CREATE FUNCTION begin_sink(in_id text, in_token bigint) RETURNS smallint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM set_config('mulligan.sink', in_id, true);
    IF EXISTS (SELECT FROM job WHERE id = in_id AND token = in_token AND status = 'processing')
    THEN
        RETURN 1;
    END IF;
    RETURN verdict(in_id, in_token);
END
$$;

-- still_in_sink(id): whether this is still the transaction that was marked for the job.
CREATE FUNCTION still_in_sink(in_id text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('mulligan.sink', true), '') = in_id
$$;
