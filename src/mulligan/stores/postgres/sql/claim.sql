-- claim(given, self, channel, plan): walk a plan and hand its jobs to the worker `self`. How the
-- walk goes is core/plan.py, to which the comparison tests hold this. `plan` is a record of arrays;
-- sources, tiers, groups and limits are numbered from 1:
--
-- lanes, waits        of each source: its lane, and for how long a job must have been due
-- yields              of each source; NULL if none does
-- lanes_repeat        a lane occurs twice: what was taken through one source must be hidden from
--                     the other at once
-- tier_last           the last source of each tier, which begins after that of the tier before
-- group_last          the last tier of each group, likewise
-- step_group          of each step: the group that it takes from
-- step_until          how many jobs the claim has after it at most
-- step_of             the groups that it shares with, as "1,2", or NULL; step_share is its share of
--                     what these get, in millionths, and step_carry what it is owed from before;
--                     all three are NULL if no step has a share
-- limited_source, source_limit   pairs: the source is under the limit. This and what follows is
--                     NULL if there are no limits
-- limit_key           of each limit: the number of its key in limit_keys
-- limit_is_cap        whether it is a cap, not a rate
-- limit_most          the most that it allows; NULL if it only counts
-- limit_per           the window of a rate
-- limit_ratio         a rate's limit grows to this ratio of the starts of the key limit_of
-- turn_steps          how far apart the turns of fairness keys are, by queue and key, as JSON, where
--                     their weight is not 1; NULL if there is none
--
-- Result: first a row with ordinal 0 (source 1 if the plan is stale, id the groups that have more
-- as a word of t and f, due the microseconds until the plan could yield more, token the time), then
-- the claimed jobs, each with its ordinal in the walk and the source it came from, in any order.
--
-- Heads are kept per source: the first job not yet taken. Rows of `waiting` are locked with SKIP
-- LOCKED, so claims never wait for each other; jobs that have expired are ended one by one, all
-- others leave their lanes together and are updated once, at the end. Where jobs stand in lines of a
-- lane (lines.sql), claims hold the limits, and take from one lane at a time.
-- Rows are named by ctid, or their ids compared as arrays of one, here and wherever many are
-- changed at once: a plain join on ids would let the planner walk the whole table when it believes
-- it empty.
CREATE FUNCTION claim(given bigint, self jsonb, channel text, plan claim_plan) RETURNS TABLE (
    ordinal integer, source integer, id text, token bigint, task text, body bytea, region text,
    priority smallint, due bigint, retry_count integer, replay integer, snoozes integer,
    trail text, limits text
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
    -- Of the plan, what is read again and again: an array is quicker to read in a variable.
    demand integer := plan.demand;
    lanes text[] := plan.lanes;
    waits bigint[] := plan.waits;
    yields boolean[] := plan.yields;
    tier_last integer[] := plan.tier_last;
    group_last integer[] := plan.group_last;
    step_group integer[] := plan.step_group;
    step_until integer[] := plan.step_until;
    step_of text[] := plan.step_of;
    head_due bigint[];
    head_sequence bigint[];
    waited bigint[] := waits;  -- as they are now: nothing where a source yields to nobody
    after_due bigint[] := array_fill(lowest, ARRAY[cardinality(lanes)]);
    after_sequence bigint[] := after_due;
    limited boolean := plan.limit_keys IS NOT NULL;
    used integer[];
    started bigint[];
    limit_room bigint[];      -- per limit, NULL: without end
    source_room bigint[];     -- per source: the least room of its limits, NULL: without end
    charged integer[];        -- per key: starts to count
    permits text[];           -- per source: what its jobs will hold
    lined boolean;            -- jobs stand in lines of some lanes of the plan
    lane_ids bigint[];        -- per source: its lane, if jobs stand in lines of it
    head_line bigint[];       -- per source: the line that is next, if it is one
    first_due bigint[];       -- per source: the first job that stands in the lane itself
    first_sequence bigint[];
    -- How many lines the claim may yet set aside: one more and it ends, and says that there is more.
    may_set_aside integer := 200;
    taken_ids text[] := '{}';
    taken_sources integer[] := '{}';
    due_sources integer[];
    open_sources integer[];
    one integer;
    due_source integer;
    first_source integer;     -- of the tier
    counts bigint[] := array_fill(0::bigint, ARRAY[coalesce(cardinality(group_last), 0)]);
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
    expired text[] := '{}';   -- found expired: who awaits them is told in the end
    again boolean;            -- lanes changed under the walk: look at every head anew
    more text := '';
    next_in bigint;
    opens bigint;
    claim_number bigint;
BEGIN
    PERFORM keep_worker(now, self);
    PERFORM lock_facts_shared();
    ordinal := 0;
    source := 0;
    token := now;
    SELECT s.epoch <> plan.epoch,
           EXISTS (SELECT FROM lined_lane) OR EXISTS (SELECT FROM waiting w WHERE w.line = 0)
    INTO again, lined FROM state s;
    IF again THEN
        source := 1;
        RETURN NEXT;
        RETURN;
    END IF;
    IF lined THEN
        lined := EXISTS (SELECT FROM lined_lane n WHERE n.lane = ANY (lanes))
                 OR EXISTS (SELECT FROM waiting w WHERE w.line = 0 AND w.lane = ANY (lanes));
    END IF;
    IF limited OR lined THEN
        PERFORM stop_sleeping(worker_id);
        PERFORM lock_limits();
        -- Anew: whoever had the limits before may have forgotten starts that were still in a window
        -- of the time at which this claim began to wait.
        now := instant(given);
        token := now;
    END IF;
    IF limited THEN
        SELECT array_agg(l.used ORDER BY l.ord), array_agg(l.started ORDER BY l.ord)
        INTO used, started FROM read_limits(now, plan) l;
        charged := array_fill(0, ARRAY[cardinality(plan.limit_keys)]);
        SELECT array_agg((
            SELECT string_agg(plan.limit_keys[plan.limit_key[l.number]], chr(31) ORDER BY l.ord)
            FROM unnest(plan.limited_source, plan.source_limit) WITH ORDINALITY
              AS l (source, number, ord)
            WHERE l.source = s AND plan.limit_is_cap[l.number]
        ) ORDER BY s) INTO permits FROM generate_subscripts(lanes, 1) AS s;
    END IF;
    SELECT array_agg(h.due ORDER BY h.source), array_agg(h.sequence ORDER BY h.source)
    INTO head_due, head_sequence
    FROM first_heads(lanes) h;
    IF lined THEN
        lane_ids := lanes_up_to_date(now, lanes);
        first_due := head_due;
        first_sequence := head_sequence;
        SELECT h.lines, h.dues, h.sequences INTO head_line, head_due, head_sequence
        FROM lined_heads(now, lane_ids, first_due, first_sequence) h;
    END IF;
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
            room := least(room, (plan.step_carry[step]
                                 + (shared + room) * plan.step_share[step]) / 1000000
                                - counts[step_group[step]]);
        END IF;
        before_step := cardinality(taken_ids);
        FOR tier IN coalesce(group_last[step_group[step] - 1], 0) + 1
                    .. group_last[step_group[step]] LOOP
            first_source := coalesce(tier_last[tier - 1], 0) + 1;
            WHILE room > 0 AND may_set_aside > 0 LOOP
                open_sources := '{}';
                chunk := room;
                FOR s IN first_source .. tier_last[tier] LOOP
                    IF head_due[s] + waited[s] <= now THEN
                        open_sources := open_sources || s;
                        one := s;
                    END IF;
                END LOOP;
                EXIT WHEN cardinality(open_sources) = 0;
                IF limited THEN
                    SELECT r.limits, r.sources INTO limit_room, source_room
                    FROM limit_rooms(plan, used, started) r;
                    due_sources := open_sources;
                    open_sources := '{}';
                    FOREACH due_source IN ARRAY due_sources LOOP
                        IF source_room[due_source] IS NULL OR source_room[due_source] > 0 THEN
                            open_sources := open_sources || due_source;
                            one := due_source;
                            chunk := least(chunk, source_room[due_source]);
                        END IF;
                    END LOOP;
                    EXIT WHEN cardinality(open_sources) = 0;
                    -- Counting fresh starts may open a closed ratio in the same tier: one at a
                    -- time.
                    IF EXISTS (
                        SELECT FROM unnest(plan.limited_source, plan.source_limit)
                          AS l (source, number)
                        WHERE l.source BETWEEN first_source AND tier_last[tier]
                          AND plan.limit_of[l.number] IS NOT NULL AND limit_room[l.number] <= 0
                    ) THEN
                        chunk := 1;
                    END IF;
                END IF;

                before_batch := cardinality(taken_ids);
                IF lined AND has_lines(lane_ids, open_sources) THEN
                    SELECT t.* INTO candidate
                    FROM take_lined(now, chunk, open_sources, lanes, lane_ids, waited,
                                    plan.turn_steps, head_line, head_due, head_sequence, first_due,
                                    first_sequence) t;
                    first_due := candidate.first_due;
                    first_sequence := candidate.first_sequence;
                    expired := expired || candidate.expired;
                    taken_ids := taken_ids || candidate.ids;
                    used_up := cardinality(candidate.ids);
                    taken_sources := taken_sources
                                     || array_fill(candidate.source, ARRAY[used_up]);
                    room := room - used_up;
                    may_set_aside := may_set_aside - (used_up = 0)::integer;
                    SELECT h.lines, h.dues, h.sequences INTO head_line, head_due, head_sequence
                    FROM lined_heads(now, lane_ids, first_due, first_sequence) h;
                    IF limited THEN
                        SELECT c.* INTO used, started, charged
                        FROM count_starts(plan, taken_sources[before_batch + 1:], used, started,
                                          charged) c;
                    END IF;
                    CONTINUE;
                END IF;

                IF cardinality(open_sources) = 1 THEN
                    SELECT array_agg(q.at), array_agg(q.id), array_agg(q.due),
                           array_agg(q.sequence), bool_or(q.special)
                    INTO batch, batch_ids, batch_dues, batch_sequences, batch_special
                    FROM (
                        SELECT w.ctid AS at, w.id, w.due, w.sequence,
                               w.expires_at <= now AS special
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
                again := plan.lanes_repeat;

                IF NOT coalesce(batch_special, false) THEN
                    DELETE FROM waiting WHERE ctid = ANY (batch);
                    taken_ids := taken_ids || batch_ids;
                    taken_sources := taken_sources || batch_sources;
                    room := room - used_up;
                ELSE
                    FOR i IN 1 .. used_up LOOP
                        IF EXISTS (SELECT FROM waiting w
                                   WHERE w.ctid = batch[i] AND w.expires_at <= now) THEN
                            expired := expired || expire(now, batch[i]);
                        ELSE
                            DELETE FROM waiting WHERE ctid = batch[i];
                            taken_ids := taken_ids || batch_ids[i];
                            taken_sources := taken_sources || batch_sources[i];
                            room := room - 1;
                        END IF;
                    END LOOP;
                END IF;

                IF limited THEN
                    SELECT c.* INTO used, started, charged
                    FROM count_starts(plan, taken_sources[before_batch + 1:], used, started,
                                      charged) c;
                END IF;

                IF again THEN
                    after_due := array_fill(lowest, ARRAY[cardinality(lanes)]);
                    after_sequence := after_due;
                    SELECT array_agg(h.due ORDER BY h.source),
                           array_agg(h.sequence ORDER BY h.source)
                    INTO head_due, head_sequence
                    FROM first_heads(lanes) h;
                    IF lined THEN
                        first_due := head_due;
                        first_sequence := head_sequence;
                        SELECT h.lines, h.dues, h.sequences INTO head_line, head_due, head_sequence
                        FROM lined_heads(now, lane_ids, first_due, first_sequence) h;
                    END IF;
                    IF yields IS NOT NULL THEN
                        waited := waits_now(now, worker_id, head_due, lanes, waits, yields);
                    END IF;
                    EXIT WHEN used_up = 0;
                    CONTINUE;
                END IF;
                IF used_up = chunk THEN
                    -- Of one source the last job says where its next head is.
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
                    IF lined THEN
                        first_due[candidate.source] := candidate.due;
                        first_sequence[candidate.source] := candidate.sequence;
                    END IF;
                END LOOP;
            END LOOP;
        END LOOP;
        counts[step_group[step]] :=
            counts[step_group[step]] + cardinality(taken_ids) - before_step;
    END LOOP;

    IF limited THEN
        PERFORM charge_limits(now, plan, used, charged);
        SELECT r.limits, r.sources INTO limit_room, source_room
        FROM limit_rooms(plan, used, started) r;
    END IF;
    FOR g IN 1 .. coalesce(cardinality(group_last), 0) LOOP
        again := false;
        FOR tier IN coalesce(group_last[g - 1], 0) + 1 .. group_last[g] LOOP
            FOR s IN coalesce(tier_last[tier - 1], 0) + 1 .. tier_last[tier] LOOP
                again := again OR (coalesce(head_due[s] + waited[s] <= now, false)
                                   AND (NOT limited OR coalesce(source_room[s] > 0, true)));
            END LOOP;
        END LOOP;
        more := more || CASE WHEN again THEN 't' ELSE 'f' END;
    END LOOP;
    IF cardinality(taken_ids) < demand THEN
        FOR s IN 1 .. cardinality(lanes) LOOP
            CONTINUE WHEN head_due[s] IS NULL;
            opens := greatest(0, head_due[s] + waited[s] - now);
            IF limited THEN
                opens := greatest(opens, reopens_in(now, plan, s, opens, limit_room));
                CONTINUE WHEN source_room[s] <= 0 AND opens >= -(lowest + 1);
            END IF;
            next_in := least(next_in, opens);
        END LOOP;
        IF plan.lanes_repeat OR limited THEN
            PERFORM fall_asleep(worker_id, channel, now + next_in, w.lanes, w.waits, w.yields,
                                w.watched, w.limits)
            FROM watched_by(plan, source_room) w;
        ELSE
            PERFORM fall_asleep(worker_id, channel, now + next_in, lanes, waits,
                                coalesce(yields, array_fill(false, ARRAY[cardinality(lanes)])),
                                array_fill(true, ARRAY[cardinality(lanes)]), '{}');
        END IF;
    ELSE
        PERFORM stop_waiting(now, worker_id);
    END IF;
    id := more;
    due := next_in;
    RETURN NEXT;
    IF cardinality(taken_ids) = 0 THEN
        -- Nothing was handed out that must outlast a crash: the disk is not waited for.
        PERFORM set_config('synchronous_commit', 'off', true);
    ELSE
        claim_number := nextval('counter');
        INSERT INTO claimed (number, claimed_at, open, worker, ids)
        VALUES (claim_number, now, cardinality(taken_ids), worker_id, taken_ids);
        RETURN QUERY
        UPDATE job j SET
            status = 'processing', token = j.token + 1, claimed = claim_number,
            worker_region = walk.worker_region, started_at = now,
            last_retry_at = CASE WHEN j.retry_count > 0 THEN now ELSE j.last_retry_at END,
            permits = walk.permits[taken_sources[u.ord]], holds = j.limits
        FROM unnest(taken_ids) WITH ORDINALITY AS u (id, ord)
        WHERE j.id = ANY (ARRAY[u.id])
        RETURNING u.ord::integer, taken_sources[u.ord], j.id, j.token, j.task, j.body, j.region,
                  j.priority, j.due, j.retry_count, j.replay, j.snoozes, j.trail, j.limits;
    END IF;
    IF array_remove(expired, NULL) <> '{}' THEN
        PERFORM tell_awaiting(now, array_remove(expired, NULL));
    END IF;
END
$$;

-- tell_awaiting(now, ids): tell those that await these jobs, which a claim found expired.
CREATE FUNCTION tell_awaiting(now bigint, ids text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    member record;
BEGIN
    PERFORM lock_upwards(ARRAY(SELECT j.gather FROM job j WHERE j.id = ANY (ids)));
    FOR member IN SELECT j.* FROM unnest(ids) WITH ORDINALITY AS u (id, ord)
                  JOIN job j ON j.id = u.id ORDER BY u.ord LOOP
        PERFORM miss(now, member.id, member.gather, member.gather_index, member.cancel_reason, 0);
    END LOOP;
END
$$;
