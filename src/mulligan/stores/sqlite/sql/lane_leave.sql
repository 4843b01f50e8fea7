-- ?1 place
DELETE FROM lane
WHERE (queue, scope, lane_priority, due, sequence)
    = (SELECT queue, scope, lane_priority, due, sequence FROM job WHERE place = ?)
