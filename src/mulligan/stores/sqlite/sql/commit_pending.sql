-- ?1 scope, ?2 lane_priority, ?3 due, ?4 sequence, ?5 delayed, ?6 retries to add,
-- ?7 snoozes to add, ?8 trail, NULL to keep what there is, ?9 place
UPDATE job
SET scope = ?1, lane_priority = ?2, due = ?3, sequence = ?4, delayed = ?5,
    retry_count = retry_count + ?6, snoozes = snoozes + ?7, trail = coalesce(?8, trail)
WHERE place = ?9
