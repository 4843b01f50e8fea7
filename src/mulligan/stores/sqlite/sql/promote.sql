-- ?1 and ?2 now
-- gives (expires_at, place, id) of the first job to have expired in a lane, and held back from one
SELECT first.expires_at, first.place, job.id
FROM (
    SELECT * FROM (
        SELECT expires_at, place FROM lane WHERE expires_at <= ?
        ORDER BY expires_at, place LIMIT 1
    )
    UNION ALL
    SELECT * FROM (
        SELECT expires_at, place FROM held WHERE expires_at <= ?
        ORDER BY expires_at, place LIMIT 1
    )
) AS first
CROSS JOIN job ON job.place = first.place
