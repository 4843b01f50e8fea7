-- Telling those who wait for jobs to end: see watch.py, which tells of what workers commit.

-- ended_key(): the advisory lock that is held, shared, while anybody waits; as `ended_key` of url.py.
CREATE FUNCTION ended_key() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT ('x' || left(encode(sha256(convert_to('mulligan ended ' || current_schema(), 'UTF8')),
                               'hex'), 16))::bit(64)::bigint
$$;

-- tell_ended(id): tell those who wait for the job when this transaction commits.
CREATE FUNCTION tell_ended(in_id text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    key bigint := ended_key();
BEGIN
    IF NOT (pg_try_advisory_lock(key) AND pg_advisory_unlock(key)) THEN
        PERFORM pg_notify('mulligan_ended_' || key, jsonb_build_array(in_id)::text);
    END IF;
END
$$;
