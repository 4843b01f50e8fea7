-- ?1 now, ?2 sequence, ?3 place
UPDATE job
SET retry_count = 0, snoozes = 0, trail = '', replay = replay + 1, delayed = 0, scope = region,
    lane_priority = priority, due = ?, sequence = ?,
    key_queue = CASE WHEN unique_key IS NOT NULL THEN coalesce(unique_in, queue) END
WHERE place = ?
