-- What is used of limits that jobs name, and the turns of fairness keys, as readers see them.

-- name: states
-- gives (name, and the same)
SELECT name, used, starts, full_at, paused_until FROM limit_state

-- name: waiting_jobs
-- gives (limit, how many jobs stand in the lines that wait there)
SELECT line.waits_for, count(*)
FROM line
CROSS JOIN held ON held.why = 'line' AND held.queue = line.queue AND held.scope = line.scope
    AND held.lane_priority = line.lane_priority AND held.line = line.line
WHERE line.waits_for IS NOT NULL
GROUP BY line.waits_for

-- name: keys
-- ?1 and ?2 queue, ?3 limit
-- gives (scope, lane_priority, key, how many jobs, its turn, that of the lane)
WITH lines (queue, scope, lane_priority, key, line) AS (
    SELECT queue, scope, lane_priority, key, line FROM line WHERE queue = ? AND key <> ''
    UNION ALL
    SELECT queue, scope, lane_priority, key, '.' || key
    FROM fairness_key
    WHERE queue = ? AND line_due IS NOT NULL
)
SELECT line.scope, line.lane_priority, line.key, count(*),
    max(coalesce(fairness_key.turn, 0)), max(coalesce(lane_turn.turn, 0))
FROM lines AS line
CROSS JOIN held ON held.why = 'line' AND held.queue = line.queue AND held.scope = line.scope
    AND held.lane_priority = line.lane_priority AND held.line = line.line
LEFT JOIN fairness_key ON fairness_key.queue = line.queue AND fairness_key.scope = line.scope
    AND fairness_key.lane_priority = line.lane_priority AND fairness_key.key = line.key
LEFT JOIN lane_turn ON lane_turn.queue = line.queue AND lane_turn.scope = line.scope
    AND lane_turn.lane_priority = line.lane_priority
GROUP BY line.scope, line.lane_priority, line.key
ORDER BY count(*) DESC, line.scope, line.lane_priority, line.key
LIMIT ?
