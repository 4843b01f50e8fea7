-- beat(given, recent, self, ids, tokens): keep all leases of a worker for another lease time.
-- Result: the ordinals of the leases that it does not hold any more, those that it holds for
-- longer than a lease without showing them, and the facts.
CREATE FUNCTION beat(
    given bigint, recent bigint, self jsonb, ids text[], tokens bigint[],
    OUT lost integer[], OUT forgotten_ids text[], OUT forgotten_tokens bigint[],
    OUT epoch integer, OUT queues jsonb, OUT regions jsonb, OUT paused text[], OUT health jsonb,
    OUT at bigint
)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    now bigint := instant(given);
BEGIN
    PERFORM join_worker(now, self, false);
    SELECT array_agg(u.ord::integer ORDER BY u.ord) INTO lost
    FROM unnest(ids, tokens) WITH ORDINALITY AS u (id, token, ord)
    LEFT JOIN LATERAL (
        SELECT true AS held FROM job j JOIN claimed c ON c.number = j.claimed
        WHERE j.id = u.id AND j.token = u.token AND j.status = 'processing'
          AND c.worker = self ->> 'id' LIMIT 1
    ) h ON true
    WHERE h.held IS NULL;
    SELECT array_agg(f.id), array_agg(f.token) INTO forgotten_ids, forgotten_tokens
    FROM (
        SELECT j.id, j.token FROM claimed c CROSS JOIN LATERAL unnest(c.ids) AS i (id)
        CROSS JOIN LATERAL (
            SELECT h.* FROM job h
            WHERE h.id = i.id AND h.claimed = c.number AND h.status = 'processing' LIMIT 1
        ) j
        WHERE c.worker = self ->> 'id'
          AND c.claimed_at + round((self ->> 'lease')::float8 * 1000000)::bigint < now
          AND NOT EXISTS (SELECT FROM unnest(beat.ids, tokens) AS u (id, token)
                          WHERE u.id = j.id AND u.token = j.token)
        ORDER BY c.claimed_at, j.due, j.sequence
    ) f;
    SELECT f.epoch, f.queues, f.regions, f.paused, f.health, f.at
    INTO epoch, queues, regions, paused, health, at FROM facts(now, recent) f;
END
$$;
