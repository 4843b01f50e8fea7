-- claim(given, worker, channel, plan): walk a plan and hand its jobs to the worker.
--
-- The plan comes as arrays. Sources 1..n: lanes, waits (microseconds), yields (NULL if none does).
-- Tiers are ranges of sources (tier_first, tier_last), groups ranges of tiers (group_first,
-- group_last). Steps: a group, how many jobs the claim has after it at most, and, where step_of
-- names groups (as "1,2"), the millionths that are the group's share of what those get, with its
-- carry. Gates: pairs (gated_source, source_gate), each gate an index of gate_keys with its limit,
-- window, ratio and the index of the key that the ratio is of; NULL arrays where the plan has none.
-- careful: a lane occurs twice, so that what was taken through one source must be hidden from the
-- other at once.
--
-- Result: first a row with ordinal 0 (source 1 if the plan is stale, task the groups that have
-- more as a word of t and f, due the microseconds until the plan could yield more, token the time),
-- then the claimed jobs, each with its place in the order of the walk and the source it came from.
--
-- Heads are kept per source: the first job not yet taken. Rows of `waiting` are locked with SKIP
-- LOCKED, so claims never wait for each other; jobs that are expired or whose key is saturated are
-- set aside one by one, all others leave their lanes together and are updated once, at the end.
-- Rows are named by ctid, or their ids compared as arrays of one, here and wherever many are changed
-- at once: a plain join on ids would let the planner walk the whole table when it believes it empty.
CREATE FUNCTION claim(
    given bigint, self jsonb, channel_name text, plan_epoch integer, demand integer,
    lanes text[], waits bigint[], yields boolean[],
    tier_first integer[], tier_last integer[], group_first integer[], group_last integer[],
    step_group integer[], step_until integer[], step_share bigint[], step_carry bigint[],
    step_of text[], careful boolean,
    gated_source integer[], source_gate integer[], gate_key integer[], gate_running boolean[],
    gate_limit integer[], gate_per bigint[], gate_ratio float8[], gate_of integer[],
    gate_keys text[]
) RETURNS TABLE (
    ordinal integer, source integer, id text, token bigint, task text, body bytea, region text,
    priority smallint, due bigint, retry_count integer, replay integer, snoozes integer,
    trail text
)
LANGUAGE plpgsql ROWS 100
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
<<walk>>
DECLARE
    now bigint := instant(given);
    worker_id text := self ->> 'id';
    worker_region text := self ->> 'region';
    lowest constant bigint := -9223372036854775808;
    sources integer[] := '{}';
    head_due bigint[];
    head_sequence bigint[];
    waited bigint[] := waits;  -- as they are now: nothing where a source yields to nobody
    after_due bigint[] := array_fill(lowest, ARRAY[cardinality(lanes)]);
    after_sequence bigint[] := after_due;
    gated boolean := gate_keys IS NOT NULL;
    used integer[];
    started bigint[];
    gate_room bigint[];       -- per gate, NULL: without end
    source_room bigint[];     -- per source: the least room of its gates, NULL: without end
    charged integer[];        -- per key: starts to count
    permits text[];           -- per source: what its jobs will hold
    taken_ids text[] := '{}';
    taken_sources integer[] := '{}';
    taken_keys text[] := '{}';     -- permits of their own concurrency keys
    open_sources integer[];
    one integer;
    counts bigint[] := array_fill(0::bigint, ARRAY[coalesce(cardinality(group_first), 0)]);
    shared bigint;
    before_step integer;
    before_batch integer;
    room integer;
    chunk bigint;
    batch tid[];
    batch_ids text[];
    batch_sources integer[];
    batch_dues bigint[];
    batch_sequences bigint[];
    batch_special boolean;
    used_up integer;          -- how many of the batch were dealt with
    candidate record;
    again boolean;            -- lanes changed under the walk: look at every head anew
    gates_held boolean := false;
    more text := '';
    next_in bigint;
    opens bigint;
    number bigint;
BEGIN
    FOR s IN 1 .. cardinality(lanes) LOOP
        sources := sources || s;
    END LOOP;
    PERFORM keep_worker(now, self);
    PERFORM hold_facts();
    IF plan_epoch <> (SELECT epoch FROM state) THEN
        RETURN QUERY
        SELECT 0, 1, '', now, '', NULL::bytea, '', 0::smallint, NULL::bigint, 0, 0, 0, '';
        RETURN;
    END IF;
    IF gated THEN
        PERFORM hold_gates();
        gates_held := true;
        -- Anew: whoever had the gates before may have forgotten starts that were still in a window
        -- of the time at which this claim began to wait.
        now := instant(given);
        SELECT array_agg(g.used ORDER BY g.ord), array_agg(g.started ORDER BY g.ord)
        INTO used, started FROM open_gates(now, gate_keys, gate_key, gate_per, gate_of) g;
        charged := array_fill(0, ARRAY[cardinality(gate_keys)]);
        SELECT array_agg((
            SELECT string_agg(gate_keys[gate_key[g.gate]], chr(31) ORDER BY g.ord)
            FROM unnest(gated_source, source_gate) WITH ORDINALITY AS g (source, gate, ord)
            WHERE g.source = s AND gate_running[g.gate]
        ) ORDER BY s) INTO permits FROM unnest(sources) AS s;
    END IF;
    SELECT array_agg(h.due ORDER BY h.source), array_agg(h.sequence ORDER BY h.source)
    INTO head_due, head_sequence
    FROM heads(sources, lanes, after_due, after_sequence) h;
    IF yields IS NOT NULL THEN
        waited := waits_now(now, worker_id, head_due, lanes, waits, yields);
    END IF;

    FOR step IN 1 .. coalesce(cardinality(step_group), 0) LOOP
        room := least(step_until[step], demand) - cardinality(taken_ids);
        CONTINUE WHEN room <= 0;
        IF step_of[step] IS NOT NULL THEN
            shared := 0;
            FOREACH one IN ARRAY string_to_array(step_of[step], ',')::integer[] LOOP
                shared := shared + counts[one];
            END LOOP;
            room := least(room, (step_carry[step] + (shared + room) * step_share[step]) / 1000000
                                - counts[step_group[step]]);
        END IF;
        before_step := cardinality(taken_ids);
        FOR tier IN group_first[step_group[step]] .. group_last[step_group[step]] LOOP
            WHILE room > 0 LOOP
                IF gated THEN
                    SELECT r.gates, r.sources INTO gate_room, source_room
                    FROM gate_rooms(cardinality(lanes), used, started, gated_source, source_gate,
                                    gate_key, gate_running, gate_limit, gate_ratio, gate_of) r;
                END IF;
                open_sources := '{}';
                chunk := room;
                FOR s IN tier_first[tier] .. tier_last[tier] LOOP
                    IF head_due[s] + waited[s] <= now THEN
                        IF NOT gated OR source_room[s] IS NULL OR source_room[s] > 0 THEN
                            open_sources := open_sources || s;
                            one := s;
                            IF gated THEN
                                chunk := least(chunk, source_room[s]);
                            END IF;
                        END IF;
                    END IF;
                END LOOP;
                EXIT WHEN cardinality(open_sources) = 0;
                -- Counting fresh starts may open a closed ratio in the same tier: one at a time.
                IF gated THEN
                    IF EXISTS (
                        SELECT FROM unnest(gated_source, source_gate) AS g (source, gate)
                        WHERE g.source BETWEEN tier_first[tier] AND tier_last[tier]
                          AND gate_of[g.gate] IS NOT NULL AND gate_room[g.gate] <= 0
                    ) THEN
                        chunk := 1;
                    END IF;
                END IF;

                IF cardinality(open_sources) = 1 THEN
                    SELECT array_agg(q.at), array_agg(q.id), array_agg(q.due),
                           array_agg(q.sequence), bool_or(q.special)
                    INTO batch, batch_ids, batch_dues, batch_sequences, batch_special
                    FROM (
                        SELECT w.ctid AS at, w.id, w.due, w.sequence,
                               w.concurrency_key IS NOT NULL OR w.expires_at <= now AS special
                        FROM waiting w
                        WHERE of_lane(w, lanes[one]) AND NOT w.held
                          AND (w.due, w.sequence) >= (head_due[one], head_sequence[one])
                          AND w.due <= now - waited[one]
                        ORDER BY w.due, w.sequence LIMIT chunk
                        FOR UPDATE SKIP LOCKED
                    ) q;
                    batch_sources := array_fill(one, ARRAY[coalesce(cardinality(batch_ids), 0)]);
                ELSE
                    SELECT array_agg(q.at), array_agg(q.id), array_agg(q.source),
                           array_agg(q.due), array_agg(q.sequence), bool_or(q.special)
                    INTO batch, batch_ids, batch_sources, batch_dues, batch_sequences, batch_special
                    FROM merged(now, chunk, open_sources, lanes, waited, head_due, head_sequence) q;
                END IF;
                batch_ids := coalesce(batch_ids, '{}');
                batch_sources := coalesce(batch_sources, '{}');
                used_up := cardinality(batch_ids);
                before_batch := cardinality(taken_ids);
                again := careful;

                IF NOT coalesce(batch_special, false) THEN
                    DELETE FROM waiting WHERE ctid = ANY (batch);
                    taken_ids := taken_ids || batch_ids;
                    taken_sources := taken_sources || batch_sources;
                    taken_keys := taken_keys || array_fill(NULL::text, ARRAY[used_up]);
                    room := room - used_up;
                ELSE
                    IF NOT gates_held THEN
                        PERFORM hold_gates();
                        gates_held := true;
                    END IF;
                    FOR i IN 1 .. cardinality(batch_ids) LOOP
                        SELECT t.* INTO candidate FROM take(now, batch[i]) t;
                        IF candidate.taken THEN
                            taken_ids := taken_ids || batch_ids[i];
                            taken_sources := taken_sources || batch_sources[i];
                            taken_keys := taken_keys || candidate.permit;
                            room := room - 1;
                        END IF;
                        IF candidate.others THEN
                            again := true;
                            used_up := i;
                            EXIT;
                        END IF;
                    END LOOP;
                END IF;

                IF gated THEN
                    SELECT c.* INTO used, started, charged
                    FROM count_starts(taken_sources[before_batch + 1:], used, started, charged,
                                      gated_source, source_gate, gate_key, gate_running) c;
                END IF;

                IF again THEN
                    after_due := array_fill(lowest, ARRAY[cardinality(lanes)]);
                    after_sequence := after_due;
                    SELECT array_agg(h.due ORDER BY h.source),
                           array_agg(h.sequence ORDER BY h.source)
                    INTO head_due, head_sequence
                    FROM heads(sources, lanes, after_due, after_sequence) h;
                    IF yields IS NOT NULL THEN
                        waited := waits_now(now, worker_id, head_due, lanes, waits, yields);
                    END IF;
                    EXIT WHEN used_up = 0;
                    CONTINUE;
                END IF;
                IF used_up = chunk THEN
                    -- With one source the last job tells where it stands.
                    FOR i IN CASE WHEN cardinality(open_sources) > 1 THEN 1 ELSE used_up END
                             .. used_up LOOP
                        after_due[batch_sources[i]] := batch_dues[i];
                        after_sequence[batch_sources[i]] := batch_sequences[i];
                    END LOOP;
                ELSE
                    -- All that may start now is taken, or locked by a claim beside this one.
                    FOREACH one IN ARRAY open_sources LOOP
                        after_due[one] := now - waited[one];
                        after_sequence[one] := -(lowest + 1);
                    END LOOP;
                END IF;
                FOR candidate IN
                    SELECT h.source, h.due, h.sequence
                    FROM heads(open_sources, lanes, after_due, after_sequence) h
                LOOP
                    head_due[candidate.source] := candidate.due;
                    head_sequence[candidate.source] := candidate.sequence;
                END LOOP;
            END LOOP;
        END LOOP;
        counts[step_group[step]] :=
            counts[step_group[step]] + cardinality(taken_ids) - before_step;
    END LOOP;

    IF gated THEN
        PERFORM charge_gates(now, gate_keys, used, charged, gate_key, gate_running, gate_limit);
        SELECT r.gates, r.sources INTO gate_room, source_room
        FROM gate_rooms(cardinality(lanes), used, started, gated_source, source_gate, gate_key,
                        gate_running, gate_limit, gate_ratio, gate_of) r;
    END IF;
    FOR g IN 1 .. coalesce(cardinality(group_first), 0) LOOP
        again := false;
        FOR tier IN group_first[g] .. group_last[g] LOOP
            FOR s IN tier_first[tier] .. tier_last[tier] LOOP
                again := again OR (coalesce(head_due[s] + waited[s] <= now, false)
                                   AND (NOT gated OR coalesce(source_room[s] > 0, true)));
            END LOOP;
        END LOOP;
        more := more || CASE WHEN again THEN 't' ELSE 'f' END;
    END LOOP;
    IF cardinality(taken_ids) < demand THEN
        FOR s IN 1 .. cardinality(lanes) LOOP
            CONTINUE WHEN head_due[s] IS NULL;
            opens := greatest(0, head_due[s] + waited[s] - now);
            IF gated THEN
                opens := greatest(opens, reopens_in(now, s, opens, gated_source, source_gate,
                    gate_room, gate_running, gate_per, gate_keys, gate_key));
                CONTINUE WHEN source_room[s] <= 0 AND opens >= -(lowest + 1);
            END IF;
            next_in := least(next_in, opens);
        END LOOP;
        PERFORM fall_asleep(
            worker_id, channel_name, now + next_in, careful, lanes, waits, yields, source_room,
            gate_keys, gate_key, source_gate);
    ELSE
        PERFORM wake_up(now, worker_id);
    END IF;
    RETURN QUERY SELECT 0, 0, '', now, more, NULL::bytea, '', 0::smallint, next_in, 0, 0, 0, '';
    IF cardinality(taken_ids) = 0 THEN
        -- Nothing was handed out that must outlast a crash: the disk is not waited for.
        PERFORM set_config('synchronous_commit', 'off', true);
    ELSE
        number := nextval('counter');
        INSERT INTO claimed (number, claimed_at, open, worker, ids)
        VALUES (walk.number, now, cardinality(taken_ids), worker_id, taken_ids);
        RETURN QUERY
        UPDATE job j SET
            status = 'processing', token = j.token + 1, claimed = walk.number,
            worker_region = walk.worker_region, started_at = now,
            last_retry_at = CASE WHEN j.retry_count > 0 THEN now ELSE j.last_retry_at END,
            permits = CASE WHEN gates_held THEN nullif(concat_ws(
                chr(31), taken_keys[u.ord], walk.permits[taken_sources[u.ord]]), '') END
        FROM unnest(taken_ids) WITH ORDINALITY AS u (id, ord)
        WHERE j.id = ANY (ARRAY[u.id])
        RETURNING u.ord::integer, taken_sources[u.ord], j.id, j.token, j.task, j.body, j.region,
                  j.priority, j.due, j.retry_count, j.replay, j.snoozes, j.trail;
    END IF;
END
$$;
