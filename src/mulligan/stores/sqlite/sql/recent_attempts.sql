-- ?1 queue, ?2 region, ?3 the first slot to look at
-- gives (attempts that succeeded, that failed)
SELECT
    total(value) FILTER (WHERE name = 'succeeded'),
    total(value) FILTER (WHERE name = 'failed')
FROM recent
WHERE queue = ? AND region = ? AND name IN ('succeeded', 'failed') AND slot >= ?
