-- ?1 id
-- gives how many jobs stand before it in its lane, 0 if it stands in none; no row if it is not stored
SELECT
    CASE WHEN mine.status = 'pending' AND mine.awaits = 0 THEN (
        SELECT count(*) FROM lane
        WHERE queue = mine.queue AND scope = mine.scope AND lane_priority = mine.lane_priority
            AND (due, sequence) < (mine.due, mine.sequence)
    ) + (
        SELECT count(*) FROM held
        WHERE why = 'key'
            AND queue = mine.queue AND scope = mine.scope AND lane_priority = mine.lane_priority
            AND (due, sequence) < (mine.due, mine.sequence)
    ) ELSE 0 END
FROM jobs AS mine
WHERE mine.id = ?
