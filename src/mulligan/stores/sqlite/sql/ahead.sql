-- ?1 id
-- gives how many jobs stand before it in its lane; no row if it is not stored
SELECT
    (
        SELECT count(*) FROM lane
        WHERE queue = mine.queue AND scope = mine.scope AND lane_priority = mine.lane_priority
            AND (due, sequence) < (mine.due, mine.sequence)
    )
    + (
        SELECT count(*) FROM held
        WHERE why = 'key'
            AND queue = mine.queue AND scope = mine.scope AND lane_priority = mine.lane_priority
            AND (due, sequence) < (mine.due, mine.sequence)
    )
FROM job AS mine
WHERE mine.id = ?1
