-- Lines of jobs and the turns of fairness keys: what the functions of core/lines.py, which are the
-- oracle, ask of their book.

-- fragment: of_lane
queue = ? AND scope = ? AND lane_priority = ?

-- fragment: line
queue, scope, lane_priority, key, line, due, sequence, costs, turn, stage, waits_for

-- fragment: pure_line
-- A line that names no limits, as the same columns.
queue, scope, lane_priority, key, NULL AS line, line_due AS due, line_sequence AS sequence,
    NULL AS costs, -1 AS turn, line_stage AS stage, NULL AS waits_for

-- name: next_lane
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4, ?5 and ?6 as ?1 to ?3
-- gives (queue, scope, lane_priority) of the lanes that come after this one by name, of those with
-- lines and those with fairness keys, which have lines too. A blob is greater than any text or
-- number: with it the search begins behind what the lane itself has, and does not go through that.
SELECT * FROM (
    SELECT queue, scope, lane_priority FROM line
    WHERE (queue, scope, lane_priority, key) > (?, ?, ?, x'')
    ORDER BY queue, scope, lane_priority
    LIMIT 1
)
UNION ALL
SELECT * FROM (
    SELECT queue, scope, lane_priority FROM fairness_key
    WHERE (queue, scope, lane_priority, key) > (?, ?, ?, x'')
    ORDER BY queue, scope, lane_priority
    LIMIT 1
)

-- name: first_of
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 line
-- gives (due, sequence, limits, number, expires_at) of its first job
SELECT held.due, held.sequence, job.limits, held.number, held.expires_at
FROM held
CROSS JOIN job ON job.number = held.number
WHERE held.why = 'line' AND held.queue = ? AND held.scope = ? AND held.lane_priority = ?
    AND held.line = ?
ORDER BY held.due, held.sequence
LIMIT 1

-- name: get
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key, ?5 line
-- gives the line
SELECT {line} FROM line WHERE {of_lane} AND key = ? AND line = ?

-- name: put
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key, ?5 line, ?6 due, ?7 sequence, ?8 costs, ?9 turn,
-- ?10 stage, ?11 waits_for
INSERT INTO line ({line}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue, scope, lane_priority, key, line) DO UPDATE
SET due = excluded.due, sequence = excluded.sequence, costs = excluded.costs,
    turn = excluded.turn, stage = excluded.stage, waits_for = excluded.waits_for

-- name: lift
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key, ?5 line
UPDATE line SET stage = 'lifted', waits_for = NULL WHERE {of_lane} AND key = ? AND line = ?

-- name: drop
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key, ?5 line
DELETE FROM line WHERE {of_lane} AND key = ? AND line = ?

-- name: pure
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key
-- gives the line of the key that names no limits
SELECT {pure_line} FROM fairness_key WHERE {of_lane} AND key = ? AND line_due IS NOT NULL

-- name: put_pure
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key, ?5 due, ?6 sequence, ?7 stage
INSERT INTO fairness_key (
    queue, scope, lane_priority, key, turn, line_due, line_sequence, line_stage
)
VALUES (?, ?, ?, ?, 0, ?, ?, ?)
ON CONFLICT (queue, scope, lane_priority, key) DO UPDATE
SET line_due = excluded.line_due, line_sequence = excluded.line_sequence,
    line_stage = excluded.line_stage

-- name: lift_pure
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key
UPDATE fairness_key SET line_stage = 'lifted' WHERE {of_lane} AND key = ? AND line_due IS NOT NULL

-- name: drop_pure
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key
UPDATE fairness_key SET line_due = NULL, line_sequence = NULL, line_stage = NULL
WHERE {of_lane} AND key = ?

-- name: first_later
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4, ?5 and ?6 as ?1 to ?3
SELECT {line} FROM (
    SELECT * FROM (
        SELECT {line} FROM line WHERE {of_lane} AND stage = 'later' ORDER BY due, sequence LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT {pure_line} FROM fairness_key
        WHERE {of_lane} AND line_stage = 'later'
        ORDER BY line_due, line_sequence
        LIMIT 1
    )
)
ORDER BY due, sequence
LIMIT 1

-- name: first_ready
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key, ?5 to ?8 as ?1 to ?4
SELECT {line} FROM (
    SELECT {pure_line} FROM fairness_key WHERE {of_lane} AND key = ? AND line_stage = 'ready'
    UNION ALL
    SELECT * FROM (
        SELECT {line} FROM line
        WHERE {of_lane} AND key = ? AND stage = 'ready'
        ORDER BY due, sequence
        LIMIT 1
    )
)
ORDER BY due, sequence
LIMIT 1

-- name: ready_after
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key, ?5 to ?8 as ?1 to ?4, ?9 line, NULL if it names no
-- limits
-- gives (due, sequence) of the first ready line of the key but for this one
SELECT due, sequence FROM (
    SELECT line_due AS due, line_sequence AS sequence, NULL AS line FROM fairness_key
    WHERE {of_lane} AND key = ? AND line_stage = 'ready'
    UNION ALL
    SELECT * FROM (
        SELECT due, sequence, line FROM line
        WHERE {of_lane} AND key = ? AND stage = 'ready'
        ORDER BY due, sequence
        LIMIT 2
    )
)
WHERE line IS NOT ?
ORDER BY due, sequence
LIMIT 1

-- name: first_waiting
-- ?1 limit, ?2 queue, ?3 scope, ?4 lane_priority
SELECT {line} FROM line
WHERE waits_for = ? AND {of_lane}
ORDER BY turn, due, sequence
LIMIT 1

-- name: next_lane_at
-- ?1 limit, ?2 queue, ?3 scope, ?4 lane_priority
-- gives the lane of which a line waits there that comes after this one by name, if any; as next_lane
SELECT queue, scope, lane_priority FROM line
WHERE waits_for = ? AND (queue, scope, lane_priority, turn) > (?, ?, ?, x'')
ORDER BY queue, scope, lane_priority
LIMIT 1

-- name: waited_for
-- gives the limits at which lines wait
SELECT DISTINCT waits_for FROM line WHERE waits_for IS NOT NULL

-- name: set_alarm
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 limit, ?5 at
INSERT INTO alarm (queue, scope, lane_priority, limit_name, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue, scope, lane_priority, limit_name) DO UPDATE SET at = excluded.at

-- name: clear_alarm
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 limit
DELETE FROM alarm WHERE {of_lane} AND limit_name = ?

-- name: next_alarm
-- ?1 queue, ?2 scope, ?3 lane_priority
SELECT at, limit_name FROM alarm WHERE {of_lane} ORDER BY at, limit_name LIMIT 1

-- name: is_fair
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 to ?6 and ?7 to ?9 as ?1 to ?3
-- gives 1 if a line of the lane has a fairness key: one that is ready, or is later, or names limits
SELECT
    EXISTS (SELECT 1 FROM fairness_key WHERE {of_lane} AND due IS NOT NULL AND +key > '')
    OR EXISTS (
        SELECT 1 FROM fairness_key INDEXED BY fairness_key_later
        WHERE {of_lane} AND line_stage = 'later'
    )
    OR EXISTS (SELECT 1 FROM line WHERE {of_lane} AND key > '')

-- name: present_turn
-- ?1 queue, ?2 scope, ?3 lane_priority
SELECT turn FROM lane_turn WHERE {of_lane}

-- name: pass_to
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 turn
INSERT INTO lane_turn (queue, scope, lane_priority, turn) VALUES (?, ?, ?, ?)
ON CONFLICT (queue, scope, lane_priority) DO UPDATE SET turn = max(turn, excluded.turn)

-- name: forget_past
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 turn
-- Keys without work whose turn is past.
DELETE FROM fairness_key WHERE {of_lane} AND due IS NULL AND line_due IS NULL AND turn <= ?

-- name: end_turns
-- ?1 queue, ?2 scope, ?3 lane_priority
DELETE FROM lane_turn WHERE {of_lane}

-- name: end_keys
-- ?1 queue, ?2 scope, ?3 lane_priority
DELETE FROM fairness_key WHERE {of_lane} AND (key <> '' OR due IS NULL)

-- name: end_key
-- ?1 queue, ?2 scope, ?3 lane_priority
UPDATE fairness_key SET turn = 0 WHERE {of_lane}

-- name: key
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key
-- gives (turn, due, sequence)
SELECT turn, due, sequence FROM fairness_key WHERE {of_lane} AND key = ?

-- name: put_key
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key, ?5 turn, ?6 due, ?7 sequence
INSERT INTO fairness_key (queue, scope, lane_priority, key, turn, due, sequence)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue, scope, lane_priority, key) DO UPDATE
SET turn = excluded.turn, due = excluded.due, sequence = excluded.sequence

-- name: forget_key
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key
DELETE FROM fairness_key WHERE {of_lane} AND key = ? AND line_due IS NULL

-- name: rest_key
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key
-- None of its lines is ready.
UPDATE fairness_key SET due = NULL, sequence = NULL WHERE {of_lane} AND key = ?

-- name: first_key
-- ?1 queue, ?2 scope, ?3 lane_priority
-- gives (key, turn, due, sequence)
SELECT key, turn, due, sequence FROM fairness_key
WHERE {of_lane} AND due IS NOT NULL
ORDER BY turn, due, sequence
LIMIT 1

-- name: first_other_key
-- ?1 queue, ?2 scope, ?3 lane_priority, ?4 key
-- gives (turn, due, sequence) of the first key with a ready line but for this one
SELECT turn, due, sequence FROM (
    SELECT key, turn, due, sequence FROM fairness_key
    WHERE {of_lane} AND due IS NOT NULL
    ORDER BY turn, due, sequence
    LIMIT 2
)
WHERE key <> ?
LIMIT 1
