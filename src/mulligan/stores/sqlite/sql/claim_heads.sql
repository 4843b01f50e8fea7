-- ?1 lanes, a JSON array of [queue, scope, lane_priority]
-- gives (index in it, due of the first job or NULL) for each
SELECT
    each.key,
    (
        SELECT lane.due
        FROM lane
        WHERE lane.queue = json_extract(each.value, '$[0]')
            AND lane.scope = json_extract(each.value, '$[1]')
            AND lane.lane_priority = json_extract(each.value, '$[2]')
        ORDER BY lane.due
        LIMIT 1
    )
FROM json_each(?) AS each
