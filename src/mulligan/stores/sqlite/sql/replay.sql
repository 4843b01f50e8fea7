-- ?1 now, ?2 sequence, ?3 place
UPDATE job
SET status = 'pending', retry_count = 0, snoozes = 0, trail = '', replay = replay + 1, ended_at = NULL,
    worker = NULL, held = 0, delayed = 0, scope = region, lane_priority = priority, due = ?1,
    sequence = ?2
WHERE place = ?3
