-- ?1 scope, ?2 lane_priority, ?3 due, ?4 sequence, ?5 delayed, ?6 retries to add,
-- ?7 snoozes to add, ?8 trail, NULL to keep what there is, ?9 place
UPDATE job
SET scope = ?, lane_priority = ?, due = ?, sequence = ?, delayed = ?,
    retry_count = retry_count + ?, snoozes = snoozes + ?, trail = coalesce(?, trail)
WHERE place = ?
