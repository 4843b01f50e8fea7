-- ?1 id
-- gives how many jobs stand before it in its lane; no row if it is not stored
SELECT
    (
        SELECT count(*) FROM job
        WHERE status = 'pending' AND held = 0 AND queue = mine.queue AND scope = mine.scope
            AND lane_priority = mine.lane_priority
            AND (due, sequence) < (mine.due, mine.sequence)
    )
    + (
        SELECT count(*) FROM job
        WHERE status = 'pending' AND held > 0 AND held = 1
            AND queue = mine.queue AND scope = mine.scope AND lane_priority = mine.lane_priority
            AND (due, sequence) < (mine.due, mine.sequence)
    )
FROM job AS mine
WHERE mine.id = ?1
