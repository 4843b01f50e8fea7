-- join_worker(now, self, anew): write down a worker as alive now. The first worker ever of a
-- region changes the facts. `anew` counts its presence from now on.
CREATE FUNCTION join_worker(now bigint, in_self jsonb, anew boolean) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    in_region text := in_self ->> 'region';
BEGIN
    IF NOT EXISTS (SELECT FROM region WHERE name = in_region) THEN
        PERFORM lock_facts();
        INSERT INTO region (name) VALUES (in_region) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            PERFORM change_facts();
        END IF;
    END IF;
    INSERT INTO worker AS w (id, region, lease, beat_at, joined_at, self)
    VALUES (in_self ->> 'id', in_region, round((in_self ->> 'lease')::float8 * 1000000)::bigint,
            now, now, in_self)
    ON CONFLICT (id) DO UPDATE SET
        region = excluded.region, lease = excluded.lease, beat_at = excluded.beat_at,
        self = excluded.self,
        joined_at = CASE WHEN anew THEN excluded.joined_at ELSE w.joined_at END;
END
$$;

-- keep_worker(now, self): a worker that claims is alive, even before its first beat.
CREATE FUNCTION keep_worker(now bigint, in_self jsonb) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM worker WHERE id = in_self ->> 'id' AND beat_at + lease > now;
    IF NOT FOUND THEN
        PERFORM join_worker(now, in_self, true);
    END IF;
END
$$;
